#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/figures.hpp"
#include "pg/connect.hpp"

namespace ff::bench {

/// How long workers' steps took.
struct WorkerLatency {
  Distribution claim{};
  Distribution renew{};

  void add(const WorkerLatency& other) {
    claim.add(other.claim);
    renew.add(other.renew);
  }
};

constexpr int kWorkers = 4;
constexpr int kClaimsPerSecond = 20;  ///< of each worker

/// Whom workers are at work beside, and what their steps took, round by round. `measure` is done once a round.
struct Beside {
  Beside(const std::string& who, std::function<WorkerLatency()> measured)
      : whom(who), measure(std::move(measured)), claim(who + ", claim"), renew(who + ", renew") {}

  std::string whom;
  std::function<WorkerLatency()> measure;
  Rounds claim;
  Rounds renew;
};
void take_turns(int rounds, std::vector<Beside>& all);

/// Runs `work` on this thread while four workers, each with a connection and executions of its own, claim,
/// renew and complete at a steady rate; they have begun a moment before. Of each step whose moment came
/// during `work`, the time from that moment to its commit: one that has to wait for the step before it is
/// late by that as well. What the workers made stays in the tables. Throws std::runtime_error when a step was
/// refused.
WorkerLatency latency_during(const pg::Connector& connector, const std::function<void()>& work);

}  // namespace ff::bench
