#pragma once

#include "base/ids.hpp"
#include "pg/params.hpp"

namespace ff::reconcile {

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

}  // namespace ff::reconcile
