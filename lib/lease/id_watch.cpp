#include "lease/id_watch.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace ff::lease {
namespace {

constexpr std::chrono::minutes kSayAgain{1};
constexpr std::size_t kMostPast = 64;
// No failover loses so many ids: at 10,000 a second it takes three years to hand them out.
constexpr std::int64_t kMostLost = std::int64_t{1} << 40;

}  // namespace

std::optional<std::string> IdWatch::note(const OutboxHead& seen, SteadyTime at) {
  const bool is_low = seen.drawn && *seen.drawn < settled_;
  const bool begins = !jump_;
  if (begins && !is_low && !is_another(seen)) return std::nullopt;
  if (begins) jump_.emplace();
  if (begins || is_low) jump_->up_to = std::max(jump_->up_to, settled_);
  if (is_low) jump_->lowest = std::min(jump_->lowest.value_or(*seen.drawn), *seen.drawn);
  const std::int64_t asked = known();
  const bool found = look_back(seen);
  if (is_low) {
    if (!begins && !found && at - jump_->said_at < kSayAgain) return std::nullopt;
    jump_->said_at = at;
    return fmt::format(
        "the sequence of lease event ids stands at {} and the cursor at {}: it has jumped back, as after a "
        "failover that lost the last writes. Events with ids up to {} that are written now are not "
        "delivered; set it to {} with setval(), and read what was written meanwhile with {}",
        *seen.drawn, settled_, settled_, settled_, way_to_read());
  }
  const bool is_over = jump_->stands || past_.empty();
  if (!begins && !is_over) return std::nullopt;
  std::string text =
      begins ? fmt::format(
                   "lease event {} is another than the one that had this id: ids were handed out a second "
                   "time, as after a failover that lost the last writes. Events with ids up to {} that were "
                   "written since are not delivered; read them with {}",
                   asked, jump_->up_to, way_to_read())
             : fmt::format(
                   "the sequence of lease event ids has caught up with the cursor. Events with ids up to {} "
                   "that were written meanwhile were not delivered; read them with {}",
                   jump_->up_to, way_to_read());
  if (is_over) jump_.reset();
  return text;
}

// What has the id that was asked for is not what had it.
bool IdWatch::is_another(const OutboxHead& seen) const {
  return !past_.empty() && seen.known_hash && *seen.known_hash != past_.back().hash;
}

// An event that is known from before and is still there was drawn below the place to which the sequence went back: all that was
// written since stands behind it. One that is above that place tells nothing, though it may be there. True: it has just been found.
bool IdWatch::look_back(const OutboxHead& seen) {
  const auto is_below = [&] { return known() <= jump_->lowest.value_or(known()); };
  // What has been found once may have been deleted since, as outbox_retention does.
  if (jump_->stands && is_below() && !is_another(seen)) return false;
  jump_->stands = !past_.empty() && seen.known_hash && !is_another(seen) && is_below();
  if (jump_->stands) return true;
  if (!past_.empty()) past_.pop_back();
  while (!is_below()) past_.pop_back();
  return false;
}

std::string IdWatch::way_to_read() const {
  if (jump_->stands)
    return fmt::format(
        "lease-events --after {}, the cursor of event {}: the newest one known from before that still stands",
        to_hex({known()}), known());
  if (jump_->lowest)
    return fmt::format(
        "lease-events --after {}, the lowest place at which the sequence was seen ({}): if somebody may have "
        "written before that was seen, with an older cursor, from before the failover",
        to_hex({*jump_->lowest}), *jump_->lowest);
  return "lease-events --after an older cursor, from before the failover";
}

// Thinned out, the older half the more often: the further back, the wider apart. The oldest stays.
void IdWatch::settled(const Fingerprint& event) {
  if (event.event_id <= settled_) return;
  settled_ = event.event_id;
  if (jump_) return;  // it may have been written since
  past_.push_back(event);
  if (past_.size() <= kMostPast) return;
  for (std::ptrdiff_t place = 1; place <= static_cast<std::ptrdiff_t>(kMostPast / 4); ++place)
    past_.erase(past_.begin() + place);
}

std::optional<Beyond> beyond(Cursor start, const OutboxHead& seen) {
  const std::int64_t id = start.event_id;
  const std::int64_t last = seen.drawn.value_or(seen.newest.event_id);
  if (id <= last) return std::nullopt;
  const std::string place = fmt::format(
      "the cursor {} ({}) is beyond every lease event id that this database has handed out, up to {}: it is "
      "of another database, or mistyped",
      to_hex(start), id, last);
  if (id - last > kMostLost) return Beyond{true, place};
  if (!seen.drawn) return std::nullopt;  // the newest events may have been deleted
  return Beyond{false,
                fmt::format("{}, and nothing is delivered before ids have passed it. Only if it is known "
                            "that it is of this database, which then lost its last writes in a failover: "
                            "set the sequence to {} with setval(), and read what was written meanwhile "
                            "with lease-events --after an older cursor, from before the failover",
                            place, id)};
}

}  // namespace ff::lease
