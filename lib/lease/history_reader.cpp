#include "lease/history_reader.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace ff::lease {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kWarnAgain = 60s;
// A held event is looked at again after a quarter of the time that it has waited: that delays it by no more
// than this part, and hours cost no more than four looks a second.
constexpr Milliseconds kSoonest = 5ms;
constexpr Milliseconds kLatest = 250ms;

}  // namespace

HistoryReader::HistoryReader(Milliseconds warn_after, HistoryObserver& observer, const Clock& clock)
    : warn_after_(warn_after), observer_(observer), clock_(clock) {}

std::optional<Milliseconds> HistoryReader::pass(pg::Connection& connection, const Streams& streams) {
  const Sighting sighting = look(connection, frontier_.marks_above());
  frontier_.note(sighting, clock_.now());
  for (const auto& stream : streams) stream->begin(sighting.newest);
  const bool more = deliver(connection, streams);
  const auto again = held_back(connection, sighting.oldest_running);
  return more ? 0ms : again;
}

bool HistoryReader::deliver(pg::Connection& connection, const Streams& streams) {
  const std::int64_t settled = frontier_.settled();
  Streams behind;
  std::vector<Stretch> stretches;
  for (const auto& stream : streams) {
    if (const auto stretch = stream->stretch(settled)) {
      behind.push_back(stream);
      stretches.push_back(*stretch);
    }
  }
  if (stretches.empty()) return false;
  const auto rows = read(connection, stretches, settled, Stream::kMostRows);
  bool more = false;
  for (std::size_t i = 0; i < behind.size(); ++i) more = behind[i]->add(rows[i], settled) || more;
  return more;
}

std::optional<Milliseconds> HistoryReader::held_back(pg::Connection& connection,
                                                     std::int64_t oldest_running) {
  const auto since = frontier_.held_since();
  const auto now = clock_.now();
  const auto held = since ? std::chrono::duration_cast<Milliseconds>(now - *since) : 0ms;
  observer_.lease_history_held_back(held);
  if (!since) {
    warned_at_.reset();
    return std::nullopt;
  }
  if (held > warn_after_ && (!warned_at_ || now - *warned_at_ >= kWarnAgain)) {
    spdlog::warn("lease events after {} have been held back for {:.1f} s, because {} may still add one",
                 frontier_.settled(), seconds(held), describe_transaction(connection, oldest_running));
    warned_at_ = now;
  }
  return std::clamp(held / 4, kSoonest, kLatest);
}

}  // namespace ff::lease
