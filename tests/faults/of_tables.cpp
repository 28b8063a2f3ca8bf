// Tables that somebody locks, changes, or lets grow under a snapshot that is held, and a disk without room for them.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>

#include "demo/simulation/executions.hpp"
#include "faults/faults.hpp"
#include "faults/soak_meter.hpp"
#include "faults/world.hpp"

namespace ff::faults {
namespace {

using namespace std::chrono_literals;

constexpr double kMostRows = 0.99;
// Twice as late is nothing where hardly anything is late.
constexpr Milliseconds kUnnoticed = 500ms;
constexpr const char* kOtherLane = "growth";
constexpr int kGrowth = 30'000;
constexpr std::size_t kPage = 8192;

Milliseconds late(const Sample& from, const Sample& to, const std::set<std::string>& but) {
  return Milliseconds{static_cast<std::int64_t>(lateness_but(from, to, kMostRows, but) * 1000)};
}

/// How late rows are moved, compared with a while before in which nothing is wrong.
class Comparison {
 public:
  /// Takes that while.
  explicit Comparison(World& world, std::set<std::string> but = {})
      : world_(world), but_(std::move(but)), meter_(world), from_(meter_.take()) {
    std::this_thread::sleep_for(world_.length(15s, 5s));
    calm_ = late(from_, meter_.take(), but_);
  }

  void begin() { from_ = meter_.take(); }
  void end(const std::string& what) {
    world_.measured(fmt::format("{} ({} without it)", what, to_text(calm_)), late(from_, meter_.take(), but_),
                    std::max(2 * calm_, kUnnoticed));
  }

 private:
  World& world_;
  const std::set<std::string> but_;
  Meter meter_;
  Sample from_;
  Milliseconds calm_{0};
};

constexpr const char* kLateness = "lateness p99";

Heal lock_tables(World& world) {
  Comparison others(world, {"budget_reset"});
  auto db = std::make_shared<pg::Connection>(world.connect());
  db->execute_script("BEGIN");
  db->execute_script("LOCK TABLE ff_budget_policy IN ACCESS EXCLUSIVE MODE");
  others.begin();
  std::this_thread::sleep_for(world.length(60s, 5s));
  others.end(kLateness + std::string(" of the others"));
  return [db] { db->execute_script("COMMIT"); };
}

Heal change_tables(World& world) {
  Comparison all(world);
  auto db = world.connect();
  all.begin();
  const SteadyTime end = Clock::system().now() + world.length(30s, 5s);
  for (int round = 0; Clock::system().now() < end; ++round) {
    const std::string name = fmt::format("trial_{}", round);
    for (const char* table : {"ff_exec_core", "ff_attempt", "ff_suspension_current"}) {
      db.execute_script(fmt::format("ALTER TABLE {} ADD COLUMN {} bigint DEFAULT {}", table, name, round));
      db.execute_script(fmt::format("CREATE INDEX {}_{} ON {} ({})", table, name, table, name));
      db.execute_script(fmt::format("ALTER TABLE {} DROP COLUMN {}", table, name));
    }
    std::this_thread::sleep_for(1s);
  }
  all.end(kLateness);
  return [] {};
}

// Nothing that has died since can be cleared away, and the planner knows nothing of what has come.
Heal hold_snapshot(World& world) {
  Comparison all(world);
  auto holder = std::make_shared<pg::Connection>(world.connect());
  holder->execute_script("BEGIN ISOLATION LEVEL REPEATABLE READ");
  holder->execute_script("SELECT count(*) FROM ff_exec_core");
  auto db = world.connect();
  simulation::create(db, {.lane = kOtherLane, .name_space = kOtherLane}, world.realm().partitions, kGrowth);
  all.begin();
  std::this_thread::sleep_for(world.length(5min, 10s));
  all.end(kLateness);
  return [holder] { holder->execute_script("COMMIT"); };
}

/// To the last byte, beside what is in it already.
void fill(const std::filesystem::path& file) {
  std::ofstream out(file, std::ios::binary | std::ios::app);
  const std::string page(kPage, 'x');
  while (out.write(page.data(), static_cast<std::streamsize>(page.size())).flush()) {
  }
}

// Whatever the server gives back in the meantime is taken as well.
Heal fill_disk(World& world, const std::shared_ptr<std::unique_ptr<Comparison>>& later) {
  *later = std::make_unique<Comparison>(world);
  const auto file = world.small_disk() / "filler";
  const SteadyTime end = Clock::system().now() + world.length(30s, 5s);
  while (Clock::system().now() < end) {
    fill(file);
    std::this_thread::sleep_for(200ms);
  }
  return [file] { std::filesystem::remove(file); };
}

// What waited for room is as late as that lasted; what falls due later is not.
void compare_later(World& world, Comparison& with) {
  std::this_thread::sleep_for(10s);
  with.begin();
  std::this_thread::sleep_for(world.length(20s, 5s));
  with.end(kLateness + std::string(" from 10 s after it on"));
}

Fault of_tables(std::string name, std::string what, std::function<Heal(World&)> inject) {
  return {.name = std::move(name),
          .what = std::move(what),
          .repetitions = 1,
          .in_short = 0,
          .wanted = 10s,
          .inject = std::move(inject)};
}

}  // namespace

Fault locked_table() {
  return of_tables("locked table", "the table of budgets locked for a minute", lock_tables);
}

Fault changed_tables() {
  return of_tables("changed tables", "columns and indexes that come and go, each second for half a minute",
                   change_tables);
}

Fault held_snapshot() {
  return of_tables("held snapshot", "a snapshot held for 5 min, while a table grows and nobody analyses it",
                   hold_snapshot);
}

Fault full_disk() {
  const auto comparison = std::make_shared<std::unique_ptr<Comparison>>();
  Fault fault = of_tables("full disk", "no room for tables for 30 s",
                          [comparison](World& world) { return fill_disk(world, comparison); });
  fault.afterwards = [comparison](World& world) {
    compare_later(world, **comparison);
    comparison->reset();
  };
  return fault;
}

}  // namespace ff::faults
