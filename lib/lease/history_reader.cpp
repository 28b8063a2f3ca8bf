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
// Who comes without a cursor, to a process that has read nothing yet, gets what open transactions have still to commit of
// so many ids up to the newest one. How far back they go cannot be known: an id tells nothing of who drew it, and one that
// was rolled back is missing as well. All that lies between is read once, to no purpose: hence not more of them.
constexpr std::int64_t kLookBack = 100'000;

}  // namespace

HistoryReader::HistoryReader(Milliseconds warn_after, HistoryObserver& observer, const Clock& clock)
    : warn_after_(warn_after), observer_(observer), clock_(clock) {}

void HistoryReader::connection_changed() {
  means_.reset();
  frontier_.forget_unsettled();
}

std::optional<Milliseconds> HistoryReader::pass(pg::Connection& connection, const Streams& streams) {
  const OutboxHead seen = look(connection);
  const std::int64_t newest = seen.newest.event_id;
  frontier_.note({seen.newest, writers(connection, newest)}, clock_.now());
  ids_.settled(frontier_.settled());
  begin(connection, streams, seen);
  const bool more = deliver(connection, streams);
  const auto again = held_back(connection, newest);
  return more ? 0ms : again;
}

const Means& HistoryReader::means_of(pg::Connection& connection) {
  if (means_) return *means_;
  means_ = means(connection);
  if (means_->ids_are_stocked && !said_.ids_are_stocked)
    spdlog::warn("the sequence of ff_lease_event.event_id has a CACHE above 1: lease events may be missed");
  if (!means_->locks && said_.locks)
    spdlog::warn(
        "pg_locks may not be read: any open transaction that has written something holds lease events back, "
        "and an event that is the first write of its transaction may be missed");
  if (!means_->sequence && said_.sequence)
    spdlog::warn(
        "the sequence of ff_lease_event.event_id may not be read (it takes USAGE): that it has jumped back "
        "might go unnoticed");
  said_ = *means_;
  return *means_;
}

OutboxHead HistoryReader::look(pg::Connection& connection) {
  const OutboxHead seen = read_head(connection, means_of(connection), ids_.known());
  if (const auto fault = ids_.note(seen, clock_.now())) spdlog::warn("{}", *fault);
  return seen;
}

// A statement of its own, so that an idle poll costs one, and so that the writers are read after the event was seen.
std::optional<Writers> HistoryReader::writers(pg::Connection& connection, std::int64_t newest) {
  if (!frontier_.asks(newest)) return std::nullopt;
  return means_of(connection).locks ? read_writers(connection)
                                    : read_marks(connection, frontier_.awaited(), frontier_.is_new(newest));
}

// Where all has settled up to the newest event, nothing below it can come. Otherwise the moment of subscribing is the
// snapshot of read_absent(): what it sees was there before, and what it does not see up to the newest event is of an open
// transaction, or nothing. What lies above the newest is read as ever.
void HistoryReader::begin(pg::Connection& connection, const Streams& streams, const OutboxHead& seen) {
  const std::int64_t newest = seen.newest.event_id;
  const std::int64_t below = std::max(frontier_.settled().event_id, newest - kLookBack);
  std::optional<std::vector<IdRange>> absent;
  for (const auto& stream : streams) {
    if (stream->begun()) continue;
    if (const auto start = stream->start()) {
      const auto fault = beyond(*start, seen);
      if (fault && fault->is_refused) {
        stream->refuse(fault->text);
        continue;
      }
      if (fault) spdlog::warn("{}", fault->text);
      stream->begin(newest);
    } else {
      if (!absent) absent = below < newest ? read_absent(connection, below, newest) : std::vector<IdRange>{};
      stream->begin(newest, *absent);
    }
  }
}

bool HistoryReader::deliver(pg::Connection& connection, const Streams& streams) {
  const std::int64_t settled = frontier_.settled().event_id;
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

std::optional<Milliseconds> HistoryReader::held_back(pg::Connection& connection, std::int64_t newest) {
  const auto since = frontier_.held_since();
  const auto now = clock_.now();
  const auto held = since ? std::chrono::duration_cast<Milliseconds>(now - *since) : 0ms;
  observer_.lease_history_held_back(held);
  if (!since) {
    warned_at_.reset();
    // So many had been waiting that this one was left out.
    return frontier_.asks(newest) ? std::optional(0ms) : std::nullopt;
  }
  if (held > warn_after_ && (!warned_at_ || now - *warned_at_ >= kWarnAgain)) {
    spdlog::warn("lease events after {} have been held back for {:.1f} s, because {} may still add one",
                 frontier_.settled().event_id, seconds(held),
                 describe_oldest(connection, means_of(connection), frontier_.in_the_way()));
    warned_at_ = now;
  }
  return std::clamp(held / 4, kSoonest, kLatest);
}

}  // namespace ff::lease
