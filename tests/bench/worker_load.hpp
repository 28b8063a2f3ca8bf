#pragma once

#include <functional>

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

/// Runs `work` on this thread while four workers, each with a connection and executions of its own, claim,
/// renew and complete at a steady rate; they have begun a moment before. Of each step whose moment came
/// during `work`, the time from that moment to its commit: one that has to wait for the step before it is
/// late by that as well. What the workers made stays in the tables. Throws std::runtime_error when a step was
/// refused.
WorkerLatency latency_during(const pg::Connector& connector, const std::function<void()>& work);

}  // namespace ff::bench
