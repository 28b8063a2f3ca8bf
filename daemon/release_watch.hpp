#pragma once

#include <string>

#include "pg/connection.hpp"
#include "supervisor/releases.hpp"

namespace ff::daemon {

/// Reads what operators have released, with each check of the database. What fails is said once, and changes nothing.
/// One thread at a time.
class ReleaseWatch {
 public:
  /// `releases` must outlive this.
  explicit ReleaseWatch(supervisor::Releases& releases) : releases_(releases) {}

  /// Does not throw.
  void poll(pg::Connection& connection);

 private:
  supervisor::Releases& releases_;
  std::string why_unread_;  // as logged
};

}  // namespace ff::daemon
