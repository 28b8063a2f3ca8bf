#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pg/connection.hpp"
#include "supervisor/pauses.hpp"

namespace ff::daemon {

/// Reads which reconcilers are paused, with each check of the database, and tells of each change in the log. What fails
/// is said once: it does not lift what is known, and is no outage. One thread at a time.
class PauseWatch {
 public:
  struct Hooks {
    /// All that are in force.
    std::function<void(const std::vector<pause::Pause>&)> changed;
    /// Whoever was held for want of a reading may go on.
    std::function<void()> released;
    /// Why they cannot be read, when that is new; empty: they can, again.
    std::function<void(const std::string&)> unread;
  };

  /// `pauses` and the clock, which is theirs, must outlive this.
  PauseWatch(supervisor::Pauses& pauses, const Clock& clock, Hooks hooks)
      : pauses_(pauses), clock_(clock), hooks_(std::move(hooks)) {}

  /// Does not throw.
  void poll(pg::Connection& connection);

 private:
  struct Failure {
    std::string why;  ///< empty: none
    bool for_good = false;
  };
  Failure learn(pg::Connection& connection);
  void tell_of_failure(const Failure& failure);
  void tell();

  supervisor::Pauses& pauses_;
  const Clock& clock_;
  const Hooks hooks_;
  std::vector<pause::Pause> told_;
  std::string why_unread_;  // as logged; empty while the table is read, or there is none
};

}  // namespace ff::daemon
