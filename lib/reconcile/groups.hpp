#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "base/partitions.hpp"

namespace ff::reconcile {

/// The partitions in groups, each of which one statement names (see Statement): always the same for the same partitions,
/// so that a session meets few texts. Partitions that share a hash child stand together, so that a statement opens as
/// few children as can be.
class Groups {
 public:
  /// Above this many the server spends more on looking through the children for each row than it saves on statements.
  static constexpr std::size_t kMost = 16;

  explicit Groups(Partitions partitions);

  const std::vector<Partitions>& all() const { return groups_; }
  std::size_t size() const { return groups_.size(); }
  std::size_t partitions() const { return group_of_.size(); }
  /// Whether these are all of them, in ascending order.
  bool are_of(const Partitions& partitions) const;
  /// Which group the partition is in: size() for one that is in none.
  std::size_t of(PartitionKey partition) const;
  /// All partitions of its group; of one that is in none, itself.
  Partitions around(PartitionKey partition) const;

 private:
  std::vector<Partitions> groups_;
  std::map<PartitionKey, std::size_t> group_of_;
};

/// The remainder of the hash child that holds a partition, of the 256 that FlowFabric's tables have: as PostgreSQL's
/// satisfies_hash_partition says.
unsigned hash_child(PartitionKey partition);

}  // namespace ff::reconcile
