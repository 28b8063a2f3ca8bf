#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "demo/simulation/worker.hpp"
#include "pg/connect.hpp"

namespace ff::test {

/// Workers that live and renew their leases ten times as often as they must, over new connections where they lose
/// theirs, each until it is refused: because somebody has taken a lease whose holder was well.
class Holders {
 public:
  /// Each claims an execution of `lane` in `partition`, where there have to be as many. The connector must outlive it.
  Holders(const pg::Connector& connector, int number, PartitionKey partition, Milliseconds lease,
          std::string lane = simulation::kDefaultLane);

  /// They go, and their leases stay.
  void stop() { threads_.clear(); }
  /// Who has got a lease so far.
  int holding() const { return holding_; }
  int refused() const { return refused_; }

 private:
  void live(int number, const std::stop_token& stop);
  bool hold(simulation::Worker& worker, std::optional<simulation::Claim>& claim, const std::stop_token& stop);

  const pg::Connector& connector_;
  const PartitionKey partition_;
  const Milliseconds lease_;
  const std::string lane_;
  std::atomic<int> holding_ = 0;
  std::atomic<int> refused_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace ff::test
