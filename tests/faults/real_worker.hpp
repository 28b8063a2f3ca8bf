#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "faults/real_record.hpp"
#include "pg/connect.hpp"
#include "support/dice.hpp"
#include "support/flowfabric.hpp"

namespace ff::faults {

struct RealWorkerOptions {
  /// Where the database is now, for a process that begins.
  std::function<std::string()> url;
  const pg::Connector* connector = nullptr;  ///< to the same
  /// The database goes away at times: what is under way then, nobody hears of.
  bool outages = false;
  /// How long an answer may take, before the process is given up.
  Milliseconds patience{0};
  std::string lane = {};
  std::uint64_t seed = 1;
};

/// A worker of the real FlowFabric with a process of its own, which is killed now and then, also while it waits for an
/// answer; another begins in its place. Used by one thread.
class RealWorker {
 public:
  RealWorker(RealWorkerOptions options, RealRecord& record);

  /// Makes executions and flows, claims, works, and ends what it claims in all ways. Throws what must not happen.
  void work(const std::stop_token& stop);
  /// Does nothing but renew one lease ten times as often as it must.
  void hold(const std::stop_token& stop);

 private:
  /// Nobody knows whether it was done.
  struct Unheard {};
  struct Lease {
    std::string execution;
    std::int64_t attempt = 0;
    std::int64_t epoch = 0;
  };

  void live_once();
  void make_work();
  void make_flow();
  std::string create(test::Json more);
  std::optional<Lease> claim();
  std::optional<Lease> claim_with_a_grant();
  std::optional<Lease> claim_what_was_suspended();
  void carry_on(const Lease& lease);
  void suspend(const Lease& lease);
  bool wait_for_children(const Lease& lease);
  void fail(const Lease& lease, const char* failure_class);
  void die(const Lease& lease);
  void die_in_the_middle(const Lease& lease);
  void come_back_late();
  bool is_taken(const Lease& lease) const;
  bool keep_renewing(const Lease& lease, const std::stop_token& stop);

  /// With the handle, and what it was told. Nothing: it was refused, and so the lease is gone.
  std::optional<test::Json> step(const Lease& lease, std::string_view operation,
                                 test::Json arguments = test::Json::object());
  std::optional<Lease> lease_of(const test::Json& told);
  void remake_handle(const Lease& lease, const char* as, std::int64_t ttl_ms);
  void start();
  /// `execution`: where the step is one under its lease, or claims it.
  test::Json ask(std::string_view operation, test::Json arguments, const std::string& execution = {});

  const RealWorkerOptions options_;
  RealRecord& record_;
  test::Dice dice_;
  std::unique_ptr<test::FlowFabric> process_;
  std::vector<Lease> ghosts_;           ///< of processes that were killed and come back
  std::vector<std::string> suspended_;  ///< and may be resumed
  std::vector<std::string> parents_;    ///< of whoever else is in their flow
};

}  // namespace ff::faults
