#include "base/partition_choice.hpp"

#include <algorithm>
#include <iterator>

namespace ff {
namespace {

Partitions chosen(const PartitionChoice& choice, const Partitions& all) {
  if (const auto* shard = std::get_if<PartitionShard>(&choice)) return shard_of(all, shard->shard, shard->of);
  if (const auto* keys = std::get_if<Partitions>(&choice)) return *keys;
  return all;
}

Partitions without(const Partitions& keys, const Partitions& others) {
  Partitions rest;
  std::set_difference(keys.begin(), keys.end(), others.begin(), others.end(), std::back_inserter(rest));
  return rest;
}

}  // namespace

std::string format_choice(const PartitionChoice& choice) {
  if (const auto* shard = std::get_if<PartitionShard>(&choice))
    return "{shard: " + std::to_string(shard->shard) + ", of: " + std::to_string(shard->of) + '}';
  if (const auto* keys = std::get_if<Partitions>(&choice)) return format_partitions(*keys);
  return "all";
}

Coverage cover(const PartitionChoice& choice, int count) {
  const Partitions all = all_partitions(count);
  const Partitions wanted = chosen(choice, all);
  Coverage coverage;
  coverage.count = count;
  coverage.not_there = without(wanted, all);
  coverage.covered = without(wanted, coverage.not_there);
  coverage.left_out = without(all, coverage.covered);
  return coverage;
}

std::string reason_against(const Coverage& coverage) {
  if (coverage.not_there.empty()) return {};
  return "partitions " + format_partitions(coverage.not_there) + " are not there: ff_partition_config has " +
         std::to_string(coverage.count) + " (0-" + std::to_string(coverage.count - 1) + ')';
}

}  // namespace ff
