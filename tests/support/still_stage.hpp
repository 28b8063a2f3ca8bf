#pragma once

#include <cstdint>
#include <string>

#include "support/engine.hpp"

namespace ff::test {

/// Where the clock of a StillStage stands, in milliseconds since 1970.
constexpr std::int64_t kNow = 1'800'000'000'000;

/// A database whose clock stands still at kNow, until it is moved, so that boundaries are met to the millisecond, and a
/// reconciler to try on it: what a test's own stage begins with before it adds rows. The clock is
/// clock_timestamp() as every session finds it; now(), timeouts and the engine's own clock go on.
struct StillStage {
  /// The reconciler has to outlive it.
  explicit StillStage(const reconcile::Reconciler& reconciler);

  /// One tick of a new engine, which tells in next_due of what falls due within a minute. Checks that neither
  /// the tick nor any row failed.
  reconcile::TickReport tick(const EngineOptions& options = {});

  /// Moves the database's clock to so long after kNow.
  void set_clock(Milliseconds since);
  /// Moves it on, and the engine's with it.
  void advance(EngineFixture& engine, Milliseconds by);

  /// A tick in which somebody runs `sql` between its looking and its acting. Checks that it then finds its one
  /// row no longer due and touches nothing.
  void check_left_alone_after(const std::string& sql, const pg::Params& params = {});

  Database database;
  pg::Connection db;

 private:
  const reconcile::Reconciler& reconciler_;
  Milliseconds since_{0};
};

}  // namespace ff::test
