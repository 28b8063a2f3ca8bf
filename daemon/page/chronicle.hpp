#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "page/history.hpp"
#include "supervisor/observer.hpp"

namespace ff::daemon::page {

/// How bad something is. Each is said by a word and a sign as well as by a colour.
enum class Severity { fine, warning, problem };

/// Something that happened, and what repeated it at once.
struct Event {
  UnixMillis at;    ///< the first time
  UnixMillis last;  ///< the last time
  int times = 1;
  Severity severity = Severity::fine;
  std::string subject;  ///< a reconciler, "all reconcilers", "daemon" or "configuration"
  std::string text;     ///< for people, from outside in part: not escaped
};

/// What was, as the status page tells it: a quarter of an hour of each reconciler, and the last events. The rest of
/// the page is what the status board has of the present. Some 1 KB a reconciler and at most 60 KB of events; forgotten
/// with the process. Safe from any thread.
class Chronicle final : public supervisor::Observer {
 public:
  static constexpr std::size_t kMostEvents = 50;
  static constexpr std::size_t kLongestText = 1024;  ///< bytes of an event's text; what is longer is cut

  explicit Chronicle(const Clock& clock) : clock_(clock), state_since_(clock.wall()) {}

  void tick_finished(const supervisor::TickEvent& event) override;
  void state_changed(supervisor::State state, const std::string& reason) override;
  void pauses_changed(const std::vector<pause::Pause>& in_force) override;
  void pauses_unread(const std::string& why) override;
  /// Adds an event; one that repeats the last event of its subject is counted there.
  void note(Severity severity, std::string_view subject, std::string_view text);

  /// Of a reconciler that has not run yet: nothing moved, nothing late.
  History::Steps history(std::string_view reconciler) const;
  std::vector<Event> events() const;  ///< that which happened last first
  UnixMillis state_since() const;     ///< when the daemon's state became what it is

 private:
  struct Known {
    History history;
    int failures = 0;             // in a row
    std::size_t quarantined = 0;  // rows
    std::optional<reconcile::Hold> hold;
  };
  void note_locked(Severity severity, std::string_view subject, std::string_view text);
  void note_failures(const supervisor::TickEvent& event, Known& known);
  void note_quarantine(const supervisor::TickEvent& event, Known& known);
  void note_hold(const supervisor::TickEvent& event, Known& known);

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::optional<supervisor::State> state_;
  UnixMillis state_since_;
  std::map<std::string, Known, std::less<>> known_;
  std::vector<pause::Pause> pauses_;
  std::deque<Event> events_;  // newest last
};

/// "3 rows", "1 row", "12,345 rows".
std::string rows_text(std::int64_t rows);
/// "12,345"
std::string grouped(std::int64_t number);

}  // namespace ff::daemon::page
