#include "base/partitions.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>

#include "base/text.hpp"

namespace ff {
namespace {

constexpr int kMostPartitions = std::numeric_limits<std::int16_t>::max() + 1;

PartitionKey parse_key(std::string_view text, std::string_view part) {
  PartitionKey key;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), key.value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty() || key.value < 0)
    throw std::invalid_argument(
        "\"" + std::string(part) +
        "\" is no partition or range of partitions (allowed: 0 to 32767, such as 7 or 0-63)");
  return key;
}

}  // namespace

Partitions partition_range(PartitionKey first, PartitionKey last) {
  Partitions keys;
  for (int key = first.value; key <= last.value; ++key) keys.push_back({static_cast<std::int16_t>(key)});
  return keys;
}

Partitions all_partitions(int count) {
  if (count > kMostPartitions)
    throw std::invalid_argument(std::to_string(count) + " partitions are more than the " +
                                std::to_string(kMostPartitions) + " that are possible");
  return count < 1 ? Partitions{} : partition_range({0}, {static_cast<std::int16_t>(count - 1)});
}

Partitions parse_partitions(std::string_view text) {
  Partitions keys;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view part = trimmed(text.substr(at, comma - at));
    const std::size_t dash = part.find('-', 1);
    const PartitionKey first = parse_key(part.substr(0, dash), part);
    const PartitionKey last = dash == std::string_view::npos ? first : parse_key(part.substr(dash + 1), part);
    if (last < first) throw std::invalid_argument("the range \"" + std::string(part) + "\" runs backwards");
    const Partitions range = partition_range(first, last);
    keys.insert(keys.end(), range.begin(), range.end());
    at = comma + 1;
  }
  std::sort(keys.begin(), keys.end());
  if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end())
    throw std::invalid_argument("partition " + std::to_string(twice->value) + " is named twice");
  return keys;
}

Partitions shard_of(const Partitions& all, int shard, int of) {
  Partitions keys;
  std::copy_if(all.begin(), all.end(), std::back_inserter(keys),
               [&](PartitionKey key) { return key.value % of == shard; });
  return keys;
}

std::string format_partitions(const Partitions& partitions) {
  std::string text;
  for (std::size_t i = 0; i < partitions.size();) {
    std::size_t last = i;
    while (last + 1 < partitions.size() && partitions[last + 1].value == partitions[last].value + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(partitions[i].value);
    if (last > i) text += '-' + std::to_string(partitions[last].value);
    i = last + 1;
  }
  return text;
}

}  // namespace ff
