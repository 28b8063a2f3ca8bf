#include "demo/simulation/quota_user.hpp"

#include "demo/simulation/steps.hpp"
#include "pg/transaction.hpp"

namespace ff::simulation {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kBetween = 400ms;

// In every statement: $1 partition key, $2 quota.
const PartitionKey kPartition{5};
constexpr const char* kQuota = "demo-quota";

const std::string kCreate = R"sql(
  INSERT INTO ff_quota_policy
      (partition_key, quota_policy_id, requests_per_window_seconds, max_requests_per_window, active_concurrency_cap,
       active_concurrency, created_at_ms, updated_at_ms)
  SELECT $1, $2, 1, 0, 1000000, 0, now_ms, now_ms
    FROM (SELECT )sql" + kNowMs +
                            R"sql( AS now_ms) AS clock
  ON CONFLICT DO NOTHING)sql";

constexpr std::string_view kLock = R"sql(
  SELECT FROM ff_quota_policy WHERE partition_key = $1 AND quota_policy_id = $2 FOR UPDATE)sql";

// $3 execution. Admitted 62 seconds ago, for one.
const std::string kAdmit = R"sql(
  INSERT INTO ff_quota_admitted (partition_key, quota_policy_id, execution_id, admitted_at_ms, expires_at_ms)
  SELECT $1, $2, $3, now_ms - 62000, now_ms - 61000
    FROM (SELECT )sql" + kNowMs +
                           R"sql( AS now_ms) AS clock)sql";

const std::string kCount = R"sql(
  UPDATE ff_quota_policy SET active_concurrency = active_concurrency + 1, updated_at_ms = )sql" +
                           kNowMs + R"sql(
   WHERE partition_key = $1 AND quota_policy_id = $2)sql";

}  // namespace

void QuotaUser::live() {
  const auto its = [] { return pg::Params::of(kPartition, kQuota); };
  connection_.execute(kCreate, its());
  while (!workload_.finishing_) {
    pg::Transaction transaction(connection_);
    transaction.execute(kLock, its());
    transaction.execute(kAdmit, its().add("{fp:1}:" + to_string(new_uuid_())));
    transaction.execute(kCount, its());
    transaction.commit();
    workload_.ledger_.admitted();
    if (!workload_.pause(kBetween)) return;
  }
}

}  // namespace ff::simulation
