#pragma once

#include <array>
#include <compare>
#include <string>
#include <vector>

/// An execution that may be tried twice, two workers, and the two reconcilers that take lapsed leases back. Whoever writes
/// under an epoch that has moved on is refused; is that enough for no one to write who has lost his lease?
namespace ff::model {

struct LeaseModel {
  static constexpr int kWorkers = 2;
  static constexpr int kAttempts = 2;
  static constexpr int kMostEpochs = 3;  ///< after so many nobody claims any more, or there would be no end

  enum class Phase { waiting, active, ended };
  struct Claim {
    int attempt = 0;
    int epoch = 0;  ///< 0: the worker believes to hold nothing
    auto operator<=>(const Claim&) const = default;
  };
  struct State {
    Phase phase = Phase::waiting;
    int attempt = 0;
    std::array<int, kAttempts> epochs{};
    bool leased = false;
    bool lapsed = false;
    int holder = -1;  ///< who was given the lease that nobody has taken since
    std::array<Claim, kWorkers> believes{};
    bool accepted = false;  ///< the last step, where it can be refused or have nothing to do
    bool intruded = false;  ///< somebody has written who was not the holder
    auto operator<=>(const State&) const = default;
  };

  enum class Verb { claim, renew, complete, lapse, reclaim, time_out };
  struct Step {
    Verb verb;
    int worker = 0;
  };

  /// False: a model of reconcilers that leave the epoch as it is.
  bool raises_epoch = true;

  std::vector<Step> steps(const State& s) const {
    std::vector<Step> next;
    if (s.leased) next = {{Verb::reclaim}, {Verb::time_out}};
    if (s.leased && !s.lapsed) next.push_back({Verb::lapse});
    for (int worker = 0; worker < kWorkers; ++worker) {
      const Claim& its = s.believes[static_cast<std::size_t>(worker)];
      if (its.epoch > 0) next.insert(next.end(), {{Verb::renew, worker}, {Verb::complete, worker}});
      if (its.epoch == 0 && s.epochs[0] + s.epochs[1] < kMostEpochs) next.push_back({Verb::claim, worker});
    }
    return next;
  }

  State after(State s, const Step& step) const {
    s.accepted = false;
    switch (step.verb) {
      case Verb::claim:
        claim(s, step.worker);
        break;
      case Verb::renew:
      case Verb::complete:
        write(s, step);
        break;
      case Verb::lapse:
        s.lapsed = s.accepted = true;
        break;
      case Verb::reclaim:
      case Verb::time_out:
        take(s, step.verb == Verb::time_out);
        break;
    }
    return s;
  }

  std::string fault(const State& s) const {
    if (s.intruded) return "somebody has written who had lost his lease";
    return s.leased != (s.holder >= 0) ? "a lease without a holder" : "";
  }

 private:
  static void claim(State& s, int worker) {
    if (s.phase != Phase::waiting) return;
    const auto attempt = static_cast<std::size_t>(s.attempt);
    s.phase = Phase::active;
    s.leased = s.accepted = true;
    s.lapsed = false;
    s.holder = worker;
    s.believes[static_cast<std::size_t>(worker)] = {s.attempt, ++s.epochs[attempt]};
  }

  static void write(State& s, const Step& step) {
    Claim& its = s.believes[static_cast<std::size_t>(step.worker)];
    s.accepted = s.epochs[static_cast<std::size_t>(its.attempt)] == its.epoch;
    if (s.accepted && s.holder != step.worker) s.intruded = true;
    if (s.accepted && step.verb == Verb::renew) {
      s.leased = true;
      s.lapsed = false;
      return;
    }
    its = {};
    if (!s.accepted) return;
    s.phase = Phase::ended;
    s.leased = s.lapsed = false;
    s.holder = -1;
  }

  void take(State& s, bool for_next_attempt) const {
    if (!s.leased || !s.lapsed) return;
    s.accepted = true;
    s.leased = s.lapsed = false;
    s.holder = -1;
    if (raises_epoch) ++s.epochs[static_cast<std::size_t>(s.attempt)];
    s.phase = for_next_attempt && s.attempt + 1 == kAttempts ? Phase::ended : Phase::waiting;
    if (for_next_attempt && s.phase == Phase::waiting) ++s.attempt;
  }
};

}  // namespace ff::model
