#pragma once

#include <random>
#include <string>
#include <vector>

#include "sandbox/workload.hpp"

namespace ff::sandbox {

/// The life of one of a Workload's workers: claims and works until the workload finishes. Used by the thread
/// that made it.
class SimulatedWorker {
 public:
  SimulatedWorker(Workload& workload, std::size_t slot, pg::Connection& connection);

  void live();

 private:
  enum class Fate { completes, fails, fails_for_good, crashes };
  /// A worker that crashed, as it will come back.
  struct Ghost {
    std::string id;
    Claim claim;
    SteadyTime returns;
  };

  Fate fate_of(const Claim& claim);
  Milliseconds length_of_work();
  void work(const Claim& claim);
  void follow(const Plan& plan, const Claim& claim);
  void hang(Worker& worker, const Claim& claim);
  void put_aside(Worker& worker, const Plan& plan, const Claim& claim);
  bool work_and_renew(Worker& worker, const Claim& claim, Milliseconds length);
  void end(Worker& worker, const Claim& claim, Fate fate);
  void crash(const Claim& claim, Milliseconds into_work);
  void lose(const Claim& claim);
  void haunt();

  std::int64_t random(std::int64_t least, std::int64_t most);
  Milliseconds random_time(std::int64_t least_ms, std::int64_t most_ms);
  std::string id() const;
  void show(WorkerState::Doing doing, const std::optional<Claim>& claim, Milliseconds planned,
            const std::string& note = "");

  Workload& workload_;
  const std::size_t slot_;
  pg::Connection& connection_;
  int life_ = 1;
  std::vector<Ghost> ghosts_;
  std::mt19937_64 generator_{std::random_device{}()};
};

}  // namespace ff::sandbox
