#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "histories/generator.hpp"
#include "long/shared_state.hpp"
#include "support/flowfabric.hpp"

namespace ff::test {

/// What a worker's process was asked to do, and what it told. Unknown: it was killed before it answered.
struct Deed {
  enum class Outcome { done, nothing, refused, unknown };

  std::string who;             ///< the application_name of the process
  Step step;                   ///< by names, in real time
  std::string execution = {};  ///< by name; empty: of none
  std::int64_t sent_ms = 0;
  std::int64_t answered_ms = 0;
  Outcome outcome = Outcome::unknown;
  Json told = {};            ///< where it was done
  std::string refusal = {};  ///< its kind, where it was refused
  /// The lease that the step names, as the worker knew it before; none: epoch 0.
  Lease lease = {};
  /// When it last asked for something that FlowFabric grants to nobody but the holder; 0: it has given it up.
  std::int64_t held_at_ms = 0;
};

/// Invents steps without end, as a history's generator does, and has them done by a process of its own, which
/// may be killed at any moment: it then starts another one, and has kept some of its leases. Beside it others do
/// the same with the same executions.
class Worker final : public Theatre {
 public:
  struct Options {
    int number = 0;
    std::uint64_t seed = 1;
    std::string url;  ///< of the database, for the process
    const pg::Connector* connector = nullptr;
  };
  Worker(SharedState& shared, Options options);

  /// Works until it is told that it is over.
  void work(const std::atomic<bool>& over);
  /// From any thread: SIGKILL to the process. False: there is none, or one that was killed before.
  bool kill();

  /// In the order in which they were sent. Only after work().
  const std::vector<Deed>& deeds() const { return deeds_; }

  bool perform(const Step& step) override;
  const std::map<std::string, std::string>& names() const override { return in_play_; }
  const std::map<std::string, std::string>& flows() const override { return flows_; }
  const std::vector<Lease>& leases() const override { return leases_; }
  const std::vector<std::string>& budgets() const override { return budgets_; }
  const std::vector<std::string>& quotas() const override { return quotas_; }
  ExecutionRows rows_of(const std::string& execution) override;
  std::vector<std::string> members_of(const std::string& flow) const override {
    return shared_.members_of(flow);
  }
  std::vector<std::string> staged_edges() const override { return shared_.staged_edges(); }
  std::vector<std::string> waitpoints_of(const std::string& execution) const override {
    return shared_.waitpoints_of(execution);
  }

 private:
  class Died {};

  void look_round();
  void start();
  void come_back();
  bool remakes(const Lease& lease);
  bool ask(Deed& deed, Json request);
  void learn(const Step& step, const Deed& deed);
  Lease* lease_named(const std::string& handle);

  SharedState& shared_;
  const Options options_;
  Dice dice_;
  pg::Connection connection_;
  std::mutex mutex_;  // of these two
  std::unique_ptr<FlowFabric> process_;
  bool killed_ = false;
  int lives_ = 0;
  std::string who_;
  std::vector<Lease> leases_;
  std::map<std::string, std::int64_t> held_at_;  // by handle
  std::map<std::string, std::string> in_play_;
  std::map<std::string, std::string> flows_;
  std::vector<std::string> budgets_;
  std::vector<std::string> quotas_;
  std::vector<Deed> deeds_;
};

}  // namespace ff::test
