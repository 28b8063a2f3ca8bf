#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/partitions.hpp"
#include "pg/connection.hpp"

namespace ff::simulation {

/// The executions that are counted and checked: those of one lane and namespace, which have the same name.
struct Realm {
  std::string name;
  Partitions partitions;
};

/// $1 partition keys, $2 its name.
pg::Params of(const Realm& realm);

/// What there is at one moment.
struct Census {
  std::map<std::string, std::int64_t> executions;  ///< by what public_state should be
  std::int64_t leases = 0;                         ///< held, lapsed or not
  std::int64_t lapsed = 0;                         ///< of these, nobody has taken back yet

  std::int64_t of(const std::string& state) const {
    const auto found = executions.find(state);
    return found == executions.end() ? 0 : found->second;
  }
  std::int64_t total() const;
  /// Whatever can never change again.
  std::int64_t ended() const {
    return of("completed") + of("failed") + of("expired") + of("cancelled") + of("skipped");
  }
};

/// Two statements. Throws pg::Error.
Census take_census(pg::Connection& connection, const Realm& realm);

/// A lease that was taken from a worker.
struct TakenLease {
  std::int64_t event_id = 0;
  std::string execution;
  bool by_deadline = false;  ///< of the execution; else the lease itself had lapsed
};
/// Those after the event of that number, oldest first. Throws pg::Error.
std::vector<TakenLease> taken_leases(pg::Connection& connection, const Realm& realm, std::int64_t after);

/// What will still be moved when nobody works any more, or has to be.
struct OpenWork {
  std::int64_t leases = 0;
  std::int64_t delays = 0;
  std::int64_t suspensions = 0;  ///< with a time-out to come, or of executions that are suspended
  std::int64_t waitpoints = 0;
  std::int64_t endings = 0;  ///< ends that nobody was told of or that nobody has passed on
  std::int64_t parents = 0;  ///< that wait for children of whom the last has ended
  std::int64_t sibling_cancellations = 0;
  std::int64_t budgets = 0;      ///< with a reset to come
  std::int64_t workers = 0;      ///< on the register
  std::int64_t quotas = 0;       ///< that count somebody: all of their admissions are over
  std::int64_t short_lived = 0;  ///< that are still to be deleted
  std::int64_t doomed = 0;       ///< members of flows whose cancel is half done

  std::int64_t total() const {
    return leases + delays + suspensions + waitpoints + endings + parents + sibling_cancellations + budgets +
           workers + quotas + short_lived + doomed;
  }
};
/// One statement. `with_budgets`: all of the database; they belong to no realm. Throws pg::Error.
OpenWork open_work(pg::Connection& connection, const Realm& realm, bool with_budgets);

}  // namespace ff::simulation
