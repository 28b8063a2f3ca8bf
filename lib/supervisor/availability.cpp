#include "supervisor/availability.hpp"

#include <algorithm>

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
  if (reached) {
    const bool another =
        server_ && observation.server_started_at && *server_ != *observation.server_started_at;
    const bool was_away = outage_ || another || observation.clock_was_set;
    if (was_away || !server_)
      why_recovering_ = another                     ? "is another than before, or was started anew"
                        : outage_                   ? "was away"
                        : observation.clock_was_set ? "had its clock set"
                                                    : "was started a moment ago";
    if (was_away)
      trusted_from_ = std::max(trusted_from_, now + recovery_grace_);
    else if (!server_)  // one whose clock was set back may not have been started yet
      trusted_from_ = now + (recovery_grace_ - std::max(observation.server_uptime, Milliseconds{0}));
    server_ = observation.server_started_at;
  }
  outage_ = !reached;
  seen_ = true;
  last_ = observation;
  observed_at_ = now;
}

State Availability::state(SteadyTime now) const {
  if (!seen_) return State::starting;
  switch (last_.found) {
    case Observation::Found::writable:
      return is_trusted(now) ? State::ready : State::recovering;
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
      return std::min<SteadyTime>(now + kWhileWell, trusted_from_);
    case State::schema_outdated:
      return now + kWhileSchemaIsOld;
    default:
      return now + reconnect_delay(std::max(failures_, 1), last_.authentication, jitter);
  }
}

}  // namespace ff::supervisor
