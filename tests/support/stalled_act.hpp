#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/engine.hpp"

namespace ff::test {

/// An `act` that has begun, and so has its snapshot of the database, but has locked no row yet: what others
/// commit now happens in the narrowest of gaps. It waits because it reads the clock first, and the clock that
/// its session finds is one of ours.
class StalledAct {
 public:
  /// Returns when the statement is under way and waits. Throws std::runtime_error when it never does.
  StalledAct(const Database& database, const reconcile::Reconciler& reconciler,
             const std::vector<reconcile::RowKey>& rows);
  /// The first act of whatever this does, over connections that it makes only then, such as a tick.
  /// With `locked` it is the first statement that locks for an act, of a pair that has one.
  StalledAct(const Database& database, const std::function<void()>& work, std::string_view part = "moved");
  ~StalledAct();
  StalledAct(const StalledAct&) = delete;
  StalledAct& operator=(const StalledAct&) = delete;

  /// Lets it go on and commit. Returns the outcomes; of a tick's act its report has them.
  std::vector<std::string> finish();

 private:
  pg::Connection gate_;
  std::vector<std::string> outcomes_;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace ff::test
