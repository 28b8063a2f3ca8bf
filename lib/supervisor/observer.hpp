#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"
#include "pause/pause.hpp"
#include "reconcile/report.hpp"
#include "reconcile/scope.hpp"

namespace ff::supervisor {

/// What the daemon as a whole is doing.
enum class State {
  starting,         ///< no answer from the database yet
  ready,            ///< reconcilers run
  recovering,       ///< as ready, but leases are not taken yet: workers get time to renew them
  unreachable,      ///< no server answers
  read_only,        ///< servers answer, but none takes writes
  schema_outdated,  ///< the schema lacks something that is needed
  stopping
};
constexpr State kStates[] = {State::starting,  State::ready,           State::recovering, State::unreachable,
                             State::read_only, State::schema_outdated, State::stopping};
constexpr std::string_view name(State state) {
  switch (state) {
    case State::starting:
      return "starting";
    case State::ready:
      return "ready";
    case State::recovering:
      return "recovering";
    case State::unreachable:
      return "unreachable";
    case State::read_only:
      return "read_only";
    case State::schema_outdated:
      return "schema_outdated";
    case State::stopping:
      return "stopping";
  }
  return "unknown";
}
constexpr bool is_ready(State state) {
  return state == State::ready || state == State::recovering;
}

/// A tick begins.
struct TickStart {
  std::string_view reconciler;
  const reconcile::Progress& progress;  ///< goes on until tick_finished of the same reconciler has returned
};

/// One finished tick, as its runner saw it.
struct TickEvent {
  std::string_view reconciler;
  const reconcile::TickReport& report;
  std::chrono::duration<double> start_delay;  ///< behind the planned start
  std::chrono::duration<double> duration;
  std::int64_t missed = 0;  ///< whole intervals in start_delay: no thread was free
  int consecutive_failures = 0;
};

/// Told of what happens, from the thread in which it happens; implementations are thread-safe, quick, and
/// never throw. Nobody depends on anyone being told.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void tick_started(const TickStart&) {}
  virtual void tick_finished(const TickEvent&) {}
  /// `reason`: one line for people, empty when ready.
  virtual void state_changed(State, const std::string& /*reason*/) {}
  virtual void schema_version(int) {}
  /// Something was paused, changed, lifted or is over: all that is in force by now.
  virtual void pauses_changed(const std::vector<pause::Pause>&) {}
  /// Why what is paused cannot be read: what is known of it goes on holding. One line, empty: it can be read.
  virtual void pauses_unread(const std::string& /*why*/) {}
};

}  // namespace ff::supervisor
