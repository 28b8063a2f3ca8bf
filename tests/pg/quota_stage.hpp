#pragma once

#include <limits>

#include "support/engine.hpp"

namespace ff::test {

/// Quotas, in partition 3 unless said otherwise.
struct QuotaStage {
  static constexpr std::int64_t kSecond = 1000;
  static constexpr std::int64_t kHour = 3'600'000;
  static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

  void policy(const std::string& name, std::int64_t active, std::int64_t window_seconds = 60,
              int partition = 3) {
    insert(db, "ff_quota_policy",
           {{"partition_key", partition},
            {"quota_policy_id", name},
            {"requests_per_window_seconds", window_seconds},
            {"max_requests_per_window", 0},
            {"active_concurrency_cap", 5},
            {"active_concurrency", active},
            {"created_at_ms", 1},
            {"updated_at_ms", 1}});
  }
  /// An admission whose window ends so long from now; less than 0: ended so long ago.
  void guard(const std::string& policy, std::int64_t expires_in_ms, std::int64_t length_ms = 60'000,
             int partition = 3) {
    guard_until(policy, now + expires_in_ms, length_ms, partition);
  }
  void guard_until(const std::string& policy, std::int64_t expires_at_ms, std::int64_t length_ms = 60'000,
                   int partition = 3) {
    insert(db, "ff_quota_admitted",
           {{"partition_key", partition},
            {"quota_policy_id", policy},
            {"execution_id", "{fp:1}:" + to_string(new_uuid())},
            {"admitted_at_ms", expires_at_ms - length_ms},
            {"expires_at_ms", expires_at_ms}});
  }
  void window(const std::string& policy, std::int64_t admitted_at_ms, const std::string& dimension = "") {
    insert(db, "ff_quota_window",
           {{"partition_key", 3},
            {"quota_policy_id", policy},
            {"dimension", dimension},
            {"admitted_at_ms", admitted_at_ms},
            {"execution_id", "{fp:1}:" + to_string(new_uuid())}});
  }
  std::int64_t active(const std::string& policy, int partition = 3) {
    return number(db,
                  "SELECT active_concurrency FROM ff_quota_policy WHERE quota_policy_id = $1 AND "
                  "partition_key = $2",
                  pg::Params::of(policy, partition));
  }
  std::int64_t rows(const std::string& table, const std::string& policy) {
    return number(db, "SELECT count(*) FROM " + table + " WHERE quota_policy_id = $1",
                  pg::Params::of(policy));
  }

  Database database;
  pg::Connection db = database.connect();
  const std::int64_t now = now_ms(db);
};

}  // namespace ff::test
