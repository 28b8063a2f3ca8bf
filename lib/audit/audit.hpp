#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "audit/check.hpp"
#include "base/partitions.hpp"
#include "pg/connection.hpp"

namespace ff::audit {

/// A row at fault.
struct Finding {
  PartitionKey partition;
  std::string key;     ///< of an execution fit to paste: {fp:N}:UUID
  std::string what;    ///< the values that are wrong
  std::string remedy;  ///< the command or the statements that mend this row
};

/// What a check has found.
struct Verdict {
  const Check* check;
  std::vector<Finding> rows;
  std::int64_t more = 0;  ///< beyond the rows that are read one by one
};

/// What could not be checked, and why.
struct Omission {
  std::string checks;  ///< their names
  std::size_t count;   ///< how many they are
  Space space;
  Partitions partitions;
  std::string error;
};

struct Report {
  std::vector<Verdict> verdicts;  ///< of those checks that have found something
  std::vector<Omission> omissions;
};

/// Which partitions of each space are checked.
struct Spaces {
  Partitions flows;
  Partitions budgets;
  Partitions quotas;
  Partitions workers;
};
/// All that the database has. Throws pg::Error.
Spaces all_spaces(pg::Connection& connection);

/// The illegal states and drifted counters of a database. What live workers are just doing is illegal for a moment, too,
/// where a check compares what several transactions write one after the other: so a row counts once it was seen twice,
/// and nobody has written to it in between.
///
/// Each check is one statement over at most sixteen partitions, and so one snapshot of all that it compares: nothing that
/// belongs together lies in two partitions. It is a transaction of its own, reads only, locks no row and waits for none.
/// Where a statement takes too long, its partitions are asked for a few at a time, in the end one by one.
class Audit {
 public:
  /// The connection must outlive it.
  Audit(pg::Connection& connection, Spaces spaces) : connection_(connection), spaces_(std::move(spaces)) {}

  /// True: nothing was found, so there is nothing to confirm. Throws pg::Error where the connection is lost.
  bool check();
  /// Checks again where something was found.
  Report confirm();

  /// So long after check() it is worth it, and so long after the reconcilers that have something to mend have come by.
  static constexpr Milliseconds kBetween{5'000};
  /// Those of them that are to mend what check() has found. Beside a daemon their rows are only waiting their turn.
  std::set<std::string> reconcilers_concerned() const;

 private:
  struct Row {
    std::string problem;
    Finding finding;
    std::string seen;
    auto identity() const {
      return std::tie(problem, finding.partition.value, finding.key, seen, finding.what);
    }
    bool operator<(const Row& other) const { return identity() < other.identity(); }
  };
  struct Found {
    std::set<Row> rows;
    std::map<std::string, std::int64_t> in_all;  // by problem, where not all are among the rows
  };
  struct Place {
    const Sweep* sweep;
    Partitions partitions;
  };

  Found read(const Sweep& sweep, const Partitions& partitions);
  void visit(const Sweep& sweep, const Partitions& partitions);
  void leave_out(const Omission& omission);

  pg::Connection& connection_;
  const Spaces spaces_;
  std::vector<std::pair<Place, Found>> found_;
  std::vector<Omission> omissions_;
};

}  // namespace ff::audit
