#pragma once

#include <vector>

#include "base/ids.hpp"
#include "pg/connection.hpp"
#include "pg/params.hpp"
#include "reconcile/groups.hpp"

namespace ff::reconcile {

struct Job;

/// A stretch of a table in the order of its primary key, partition_key and one uuid: what a pair that walks
/// through it looks at (see Walk). Unless told otherwise, all of it.
struct Slice {
  struct Place {
    PartitionKey partition;
    Uuid key{};
    friend bool operator==(const Place&, const Place&) = default;
  };

  friend bool operator==(const Slice&, const Slice&) = default;

  Place after = before_all();
  Place up_to = after_all();

  static Place before_all();
  static Place after_all();
  /// No row of any partition.
  static Slice nothing();

  /// Adds the four parameters of {in_slice:row}.
  void add_to(pg::Params& params) const;
  /// Those of these partitions, in their order, that it has rows of.
  Partitions partitions_of(const Partitions& all) const;
};

/// A stretch of one group's rows.
struct GroupSlice {
  std::size_t group;
  Slice slice;
};

/// The way through a table that no index leads into (see Walk): group by group, and through each in the order of the
/// table's key. A tick reads the next stretch; behind the last row it begins again. One thread at a time.
class Walker {
 public:
  /// The next stretch of about so many rows, which may be in several groups. Throws pg::Error.
  std::vector<GroupSlice> next(const Job& job, pg::Connection& connection, std::int64_t rows);
  /// What next() has shown is done with: the one after it begins behind.
  void go_on() { from_ = to_; }
  /// Behind which row the last stretch begins.
  Slice::Place place() const { return from_.row; }
  /// How many rows the last stretch has; 0 where it goes by whole partitions.
  std::int64_t rows() const { return rows_; }
  /// The last stretch ended with the table.
  bool at_end() const { return to_.group == 0 && to_.row == Slice::before_all(); }

 private:
  struct Place {
    std::size_t group = 0;
    Slice::Place row = Slice::before_all();
    std::int64_t too_many =
        0;  ///< rows that were read up to here beyond what should have been: see Walk::phases
    friend bool operator==(const Place&, const Place&) = default;
  };
  std::vector<GroupSlice> next_rows(const Job& job, pg::Connection& connection, std::int64_t rows);
  std::vector<GroupSlice> next_partitions(const Job& job, pg::Connection& connection, std::int64_t rows);

  Place from_;
  Place to_;
  std::int64_t rows_ = 0;
};

/// All of every group.
std::vector<GroupSlice> whole(const Groups& groups);

}  // namespace ff::reconcile
