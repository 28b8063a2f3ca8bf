#pragma once

#include <random>
#include <string>
#include <vector>

#include "demo/simulation/hands.hpp"
#include "demo/simulation/workload.hpp"

namespace ff::simulation {

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
    Hands::Way way;
    Claim claim;
    SteadyTime returns;
  };

  Hands new_hands();
  Hands::Way way_of_claiming();
  Fate fate_of(const Claim& claim);
  Milliseconds length_of_work();
  void work(Hands& hands);
  void follow(const Plan& plan, Hands& hands);
  void work_and_complete(Hands& hands, Milliseconds length);
  void hang(Hands& hands);
  void put_aside(const Plan& plan, Hands& hands);
  void forget_waitpoint(const Plan& plan, Hands& hands);
  void be_taken_over(Hands& hands);
  void fall_silent(const Plan& plan, Hands& hands);
  bool work_and_renew(Hands& hands, Milliseconds length);
  void end(Hands& hands, Fate fate);
  void crash(Hands& hands, Milliseconds into_work);
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

}  // namespace ff::simulation
