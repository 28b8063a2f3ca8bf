#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "demo/simulation/census.hpp"
#include "demo/simulation/ledger.hpp"

namespace ff::simulation {

/// One question to the books, and its answer.
struct Verdict {
  bool balanced = true;
  std::string question;                    ///< as the statement that should be true
  std::string numbers = {};                ///< what was compared
  std::vector<std::string> evidence = {};  ///< a line per contradiction, not more than a few
};

/// Adds a line of evidence, and with it the verdict is false.
void contradict(Verdict& verdict, std::string line);

/// What the /metrics of a daemon that did all of this has to say about one of its reconcilers, or several together.
struct Tally {
  enum class Compare { exactly, at_least, at_most };
  std::string reconciler;
  std::vector<std::string> outcomes = {};  ///< empty: all of them
  std::vector<std::string> others = {};    ///< who may have counted the same outcomes, instead
  Compare compare = Compare::exactly;
  std::int64_t number = 0;
  std::string what = {};  ///< that was counted
};

struct Books {
  std::vector<Verdict> verdicts;
  std::vector<Tally> tallies;
};

/// Compares the simulation's ledger with the database, when nobody works any more and open_work() is nothing.
/// `whole_database`: nothing but this realm is in it, so that audit() and the budgets can be asked as well.
/// Throws pg::Error.
Books check_books(pg::Connection& connection, const Realm& realm, const Ledger& ledger, bool whole_database);

/// The part about leases and the ends of executions.
void check_work(pg::Connection& connection, const Realm& realm, const Ledger& ledger, bool whole_database,
                Books& books);
/// The part about everything else that falls due.
void check_due(pg::Connection& connection, const Realm& realm, const Ledger& ledger, bool whole_database,
               Books& books);

}  // namespace ff::simulation
