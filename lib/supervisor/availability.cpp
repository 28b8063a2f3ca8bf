#include "supervisor/availability.hpp"

#include <algorithm>
#include <utility>

#include "supervisor/schedule.hpp"

namespace ff::supervisor {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kWhileSchemaIsOld = 30s;

}  // namespace

void Availability::observe(const Observation& observation, SteadyTime now) {
  using Found = Observation::Found;
  const bool reached = observation.found == Found::writable || observation.found == Found::schema_outdated;
  failures_ = reached ? 0 : failures_ + 1;
  if (reached) see_server(observation, now);
  // Whose lock is gone went after the observation before, so that the grace begins with this one.
  if (!observation.locked.empty() || !last_.locked.empty())
    see_lock(observation.locked, observation.all_locked, now);
  outage_ = !reached;
  was_fit_ = was_fit_ || observation.found == Found::writable;
  seen_ = true;
  last_ = observation;
  observed_at_ = now;
}

void Availability::see_server(const Observation& observation, SteadyTime now) {
  using Found = Observation::Found;
  const bool another = server_ && observation.server_started_at && *server_ != *observation.server_started_at;
  const bool was_unfit =
      was_fit_ && last_.found == Found::schema_outdated && observation.found == Found::writable;
  const char* const what_it_was = another                     ? "is another than before, or was started anew"
                                  : outage_                   ? "was away"
                                  : was_unfit                 ? "had a schema that was not fit"
                                  : observation.clock_was_set ? "had its clock set"
                                                              : nullptr;
  if (what_it_was != nullptr)
    hold_until(now + recovery_grace_, observation.server + " " + what_it_was);
  else if (!server_)  // one whose clock was set back may not have been started yet
    hold_until(now + (recovery_grace_ - std::max(observation.server_uptime, Milliseconds{0})),
               observation.server + " was started a moment ago");
  server_ = observation.server_started_at;
  if (!another) return;
  is_full_ = false;
  room_at_.reset();
}

void Availability::met_lock(SteadyTime now) {
  see_lock({}, all_locked_, now);
}

bool Availability::met_full_disk(SteadyTime now) {
  const Milliseconds most = kMostGraces * recovery_grace_;
  const bool was_full = is_full(now);
  if (now - full_at_ > most) room_at_.reset();
  full_at_ = now;
  is_full_ = !room_at_ || now - *room_at_ <= most;
  if (is_full_)
    hold_until(now + std::min(recovery_grace_, kTryRoomAgain), last_.server + " has no room on its disk");
  return is_full_ && !was_full;
}

bool Availability::found_room(SteadyTime now) {
  if (!is_full(now)) return true;
  is_full_ = false;
  if (!room_at_) room_at_ = now;
  hold_until(now + recovery_grace_, last_.server + " had no room on its disk");
  return false;
}

bool Availability::is_full(SteadyTime now) const {
  return is_full_ && now - full_at_ <= kMostGraces * recovery_grace_;
}

void Availability::see_lock(const std::string& table, bool all_locked, SteadyTime now) {
  const Milliseconds most = kMostGraces * recovery_grace_;
  if (!locked_since_ || now - locked_at_ > most) {
    locked_since_ = now;
    locked_.clear();
  } else if (all_locked && all_locked_) {
    *locked_since_ += now - locked_at_;
  }
  if (!table.empty()) locked_ = table;
  locked_at_ = now;
  all_locked_ = all_locked;
  hold_until(std::min<SteadyTime>(now + recovery_grace_, *locked_since_ + most),
             (locked_.empty() ? "a table" : locked_) + " was locked");
}

void Availability::hold_until(SteadyTime moment, std::string why) {
  if (moment < trusted_from_) return;
  trusted_from_ = moment;
  why_recovering_ = std::move(why);
}

State Availability::state(SteadyTime now) const {
  if (!seen_) return State::starting;
  switch (last_.found) {
    case Observation::Found::writable:
      return is_trusted(now) && !is_full(now) ? State::ready : State::recovering;
    case Observation::Found::read_only:
      return State::read_only;
    case Observation::Found::unreachable:
      return State::unreachable;
    case Observation::Found::schema_outdated:
      return State::schema_outdated;
  }
  return State::unreachable;
}

SteadyTime Availability::next_check(SteadyTime now, double jitter) const {
  switch (state(now)) {
    case State::ready:
      return now + kWhileWell;
    case State::recovering:
      return trusted_from_ > now ? std::min<SteadyTime>(now + kWhileWell, trusted_from_) : now + kWhileWell;
    case State::schema_outdated:
      return now + kWhileSchemaIsOld;
    default:
      return now + reconnect_delay(std::max(failures_, 1), last_.authentication, jitter);
  }
}

}  // namespace ff::supervisor
