#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/partitions.hpp"
#include "pg/connection.hpp"
#include "sandbox/ledger.hpp"

namespace ff::sandbox {

/// The executions that are counted and checked: those of one lane and namespace, which have the same name.
struct Realm {
  std::string name;
  Partitions partitions;
};

/// What there is at one moment.
struct Census {
  std::map<std::string, std::int64_t> executions;  ///< by public_state
  std::int64_t leases = 0;                         ///< held, lapsed or not
  std::int64_t lapsed = 0;                         ///< of these, nobody has taken back yet

  std::int64_t of(const std::string& state) const {
    const auto found = executions.find(state);
    return found == executions.end() ? 0 : found->second;
  }
  std::int64_t total() const;
};

/// Two statements. Throws pg::Error.
Census take_census(pg::Connection& connection, const Realm& realm);

/// A lease that was taken from a worker.
struct TakenLease {
  std::int64_t event_id = 0;
  std::string execution;
};
/// Those after the event of that number, oldest first. Throws pg::Error.
std::vector<TakenLease> taken_leases(pg::Connection& connection, const Realm& realm, std::int64_t after);

/// One question to the books, and its answer.
struct Verdict {
  bool balanced = true;
  std::string question;                    ///< as the statement that should be true
  std::string numbers = {};                ///< what was compared
  std::vector<std::string> evidence = {};  ///< a line per contradiction, not more than a few
};

struct Books {
  std::vector<Verdict> verdicts;
  std::int64_t leases_taken = 0;  ///< `expired` events of leases
  std::int64_t expired = 0;       ///< `expired` events of executions
};

/// Compares the workers' ledger with the database, when nobody works any more and every lapsed lease has been
/// taken. `whole_database`: nothing but this realm is in it, so that audit() can be asked as well. Throws
/// pg::Error.
Books check_books(pg::Connection& connection, const Realm& realm, const Ledger& ledger, bool whole_database);

}  // namespace ff::sandbox
