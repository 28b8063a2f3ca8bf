#include "reconcile/in_partitions.hpp"

#include <fmt/format.h>

namespace ff::reconcile {

std::string in_partitions(std::string_view row, const Partitions& partitions) {
  std::string keys;
  for (const PartitionKey each : partitions) keys += (keys.empty() ? "" : ",") + std::to_string(each.value);
  if (partitions.size() == 1) return fmt::format("{}.partition_key = {}::smallint", row, keys);
  return fmt::format("({0}.partition_key = ANY('{{{1}}}'::smallint[]) OR {0}.partition_key = {2}::smallint)",
                     row, keys, partitions.front().value);
}

}  // namespace ff::reconcile
