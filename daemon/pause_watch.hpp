#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pg/connection.hpp"
#include "supervisor/pauses.hpp"

namespace ff::daemon {

/// Reads which reconcilers are paused, with each check of the database, and tells of each change in the log. What fails
/// is said once, and changes nothing: neither does it lift what is known, nor is it an outage. One thread at a time.
class PauseWatch {
 public:
  /// `changed` is told of all that are in force. `pauses` must outlive this.
  PauseWatch(supervisor::Pauses& pauses, std::function<void(const std::vector<pause::Pause>&)> changed)
      : pauses_(pauses), changed_(std::move(changed)) {}

  /// Does not throw.
  void look(pg::Connection& connection);

 private:
  std::string learn(pg::Connection& connection);
  void tell();

  supervisor::Pauses& pauses_;
  const std::function<void(const std::vector<pause::Pause>&)> changed_;
  std::vector<pause::Pause> told_;
  std::string why_unread_;  // as logged; empty while the table is read, or there is none
};

}  // namespace ff::daemon
