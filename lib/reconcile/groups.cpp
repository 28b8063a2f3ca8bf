#include "reconcile/groups.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace ff::reconcile {
namespace {

constexpr std::uint64_t kChildren = 256;

// PostgreSQL hashes a partition key of one column as hashint2extended(key, seed), a hash by Bob Jenkins (lookup3), and
// adds a constant where it would combine several columns (src/include/catalog/partition.h, common/hashfn.c). A database
// could not be restored if they ever changed.
constexpr std::uint64_t kSeed = 0x7A5B22367996DCFD;
constexpr std::uint64_t kOfOneColumn = 0x49A0F4DD15E5A8E3;
constexpr std::uint32_t kStart = 0x9E3779B9 + sizeof(std::uint32_t) + 3923095;

using State = std::array<std::uint32_t, 3>;

// One step of either round: `to` takes in `from`, turned.
void subtract_turned(std::uint32_t& to, std::uint32_t from, int bits) {
  to = (to ^ from) - std::rotl(from, bits);
}

void last_round(State& s) {
  constexpr std::array<int, 7> kTurns{14, 11, 25, 16, 4, 14, 24};
  for (std::size_t i = 0; i < kTurns.size(); ++i) subtract_turned(s[(i + 2) % 3], s[(i + 1) % 3], kTurns[i]);
}

void mix(State& s) {
  constexpr std::array<int, 6> kTurns{4, 6, 8, 16, 19, 4};
  for (std::size_t i = 0; i < kTurns.size(); ++i) {
    std::uint32_t& taken = s[i % 3];
    std::uint32_t& from = s[(i + 2) % 3];
    std::uint32_t& other = s[(i + 1) % 3];
    taken = (taken - from) ^ std::rotl(from, kTurns[i]);
    from += other;
  }
}

}  // namespace

unsigned hash_child(PartitionKey partition) {
  State s{kStart, kStart, kStart};
  s[0] += static_cast<std::uint32_t>(kSeed >> 32U);
  s[1] += static_cast<std::uint32_t>(kSeed);
  mix(s);
  s[0] += static_cast<std::uint32_t>(std::int32_t{partition.value});
  last_round(s);
  const std::uint64_t hash = (std::uint64_t{s[1]} << 32U) | s[2];
  return static_cast<unsigned>((hash + kOfOneColumn) % kChildren);
}

Groups::Groups(Partitions partitions) {
  std::ranges::sort(partitions, {}, [](PartitionKey each) { return std::pair(hash_child(each), each); });
  for (const PartitionKey each : partitions) {
    if (groups_.empty() || groups_.back().size() == kMost) groups_.emplace_back();
    groups_.back().push_back(each);
    group_of_.emplace(each, groups_.size() - 1);
  }
  for (Partitions& group : groups_) std::ranges::sort(group);
}

bool Groups::are_of(const Partitions& partitions) const {
  return std::ranges::equal(group_of_, partitions, {}, [](const auto& its) { return its.first; });
}

std::size_t Groups::of(PartitionKey partition) const {
  const auto found = group_of_.find(partition);
  return found == group_of_.end() ? groups_.size() : found->second;
}

Partitions Groups::around(PartitionKey partition) const {
  const std::size_t group = of(partition);
  return group == groups_.size() ? Partitions{partition} : groups_[group];
}

}  // namespace ff::reconcile
