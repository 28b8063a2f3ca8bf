#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "demo/simulation/granted_worker.hpp"
#include "demo/simulation/worker.hpp"
#include "support/engine.hpp"
#include "support/stages.hpp"

/// What interleaving tests let loose upon one execution, and in which states.
namespace ff::test {

/// A state in which one execution (the seed's id) stands between an upstream (earlier) that has ended, of
/// which it has not been told, and a downstream (later) that has enough successes and wants it cancelled.
struct Scene {
  const char* name;
  State state;
  Columns core;
  std::vector<Part> parts;
  const char* upstream_ended;  ///< outcome
  std::int64_t lease_epoch;    ///< as a worker remembers it: 0 is nobody's
  /// The steps that are taken in it, besides the verbs of a worker; empty: all but those of a few scenes.
  std::set<std::string> only = {};
  /// The upstream's end has been passed on, and yet the execution waits for it.
  bool is_dispatched = false;
};

std::vector<Scene> scenes();
/// Everything that is to be seeded for it, but for the end of a lease: see interleaving_test.cpp.
std::vector<Part> parts_of(const Scene& scene);

/// Something that one process does to an execution. Returns whether anything was done.
struct Step {
  std::string name;
  bool reconciles;
  std::function<bool(const Scene&, const Seed&)> take;
  /// Only in scenes that name it.
  bool is_of_few = false;
};
/// Whether the step is one of the scene's.
bool is_taken_in(const Scene& scene, const Step& step);

/// Lets somebody else step in when an engine has looked and is about to act: it asks the time when a tick
/// starts and again just before each act.
class BetweenLookAndAct final : public Clock {
 public:
  SteadyTime now() const override {
    if (++asked_ == 2 && step_in_) std::exchange(step_in_, nullptr)();
    return SteadyTime{} + std::chrono::hours{1000};
  }
  UnixMillis wall() const override { return unix_millis(0); }

  void tick_starts() { asked_ = 0; }
  /// Once, at the next act.
  void let(std::function<void()> step_in) { step_in_ = std::move(step_in); }

 private:
  mutable int asked_ = 0;
  mutable std::function<void()> step_in_;
};

/// One process's way to take any step: with connections of its own.
class Actor {
 public:
  explicit Actor(const Database& database);
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  const std::vector<Step>& steps() const { return steps_; }
  BetweenLookAndAct& clock() { return clock_; }

 private:
  void add(const Database& database, const reconcile::Reconciler& reconciler);
  void add_verbs();
  void add_verbs_of_few();

  pg::Connection connection_;
  simulation::Worker worker_;
  simulation::GrantedWorker granted_worker_;
  BetweenLookAndAct clock_;
  std::vector<std::unique_ptr<EngineFixture>> engines_;
  std::vector<Step> steps_;
};

}  // namespace ff::test
