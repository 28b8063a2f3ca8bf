#include "pg/statement_cache.hpp"

#include <algorithm>
#include <vector>

namespace ff::pg {
namespace {

// Texts are the same ones again and again; whoever makes new ones all the time does not fill our memory.
constexpr std::size_t kMostRemembered = 4096;
constexpr int kMostTimes = 1000;  // that are told apart

}  // namespace

StatementCache::Way StatementCache::send(const std::string& name, int from_time) {
  ++turn_;
  if (const auto found = prepared_.find(name); found != prepared_.end()) {
    found->second = turn_;
    return Way::prepared;
  }
  const auto found = unprepared_.find(name);
  const Sent before = found != unprepared_.end() ? found->second : Sent{};
  const bool is_worth_it = before.times + 1 >= from_time;
  if (is_worth_it && (prepared_.size() < most_ || (before.times > 0 && deserves_a_place(before.turn)))) {
    unprepared_.erase(name);
    prepared_.emplace(name, turn_);
    return Way::prepare;
  }
  if (before.times == 0 && unprepared_.size() >= kMostRemembered) unprepared_.clear();
  unprepared_.insert_or_assign(name, Sent{turn_, std::min(before.times + 1, kMostTimes)});
  return Way::unprepared;
}

// Of several that are prepared in one round trip each takes the place of another.
bool StatementCache::deserves_a_place(std::uint64_t sent_before) const {
  std::vector<std::uint64_t> turns;
  turns.reserve(prepared_.size());
  for (const auto& [name, turn] : prepared_) turns.push_back(turn);
  const auto loser = turns.begin() + static_cast<std::ptrdiff_t>(prepared_.size() - most_);
  std::ranges::nth_element(turns, loser);
  return 2 * (turn_ - sent_before) <= turn_ - *loser;
}

std::optional<std::string> StatementCache::surplus() const {
  if (prepared_.size() <= most_) return std::nullopt;
  return std::ranges::min_element(prepared_, {}, [](const auto& each) { return each.second; })->first;
}

void StatementCache::erase(const std::string& name) {
  prepared_.erase(name);
}

}  // namespace ff::pg
