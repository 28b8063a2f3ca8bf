// Old executions and whole flows go, by daemons that are killed in the middle of it, again and again, while FlowFabric's
// real writers make others, end them and replay them. Time passes by making the database older.
#include <csignal>
#include <random>
#include <thread>

#include "histories/ageing.hpp"
#include "trials/trial.hpp"

namespace ff::test::trials {
namespace {

constexpr std::int64_t kMinute = 60'000;
constexpr std::int64_t kRound = 25 * kMinute;  // three of them are longer than the age
constexpr int kPartitions = 4;                 // those that grow older
constexpr int kLongestLife = 150;              // of a daemon that is ready, in ms
constexpr Milliseconds kPatience{180'000};     // flows are walked through once a minute

// In small transactions, so that a kill meets one.
constexpr const char* kConfig = R"(
partitions: 0-3
reconcilers:
  dependency: {interval: 100ms, stale_threshold: 100ms}
  execution_retention: {enabled: true, age: 1h, interval: 100ms, batch_size: 3}
)";

// What names an execution or a flow that is not there.
constexpr const char* kOrphans = R"sql(
WITH core AS (SELECT execution_id FROM ff_exec_core), flow AS (SELECT flow_id FROM ff_flow_core)
SELECT (SELECT count(*) FROM ff_attempt WHERE execution_id NOT IN (TABLE core))
     + (SELECT count(*) FROM ff_suspension_current WHERE execution_id NOT IN (TABLE core))
     + (SELECT count(*) FROM ff_waitpoint_pending WHERE execution_id NOT IN (TABLE core))
     + (SELECT count(*) FROM ff_claim_grant WHERE execution_id NOT IN (TABLE core))
     + (SELECT count(*) FROM ff_completion_event WHERE execution_id NOT IN (TABLE core))
     + (SELECT count(*) FROM ff_exec_core WHERE flow_id NOT IN (TABLE flow))
     + (SELECT count(*) FROM ff_edge WHERE flow_id NOT IN (TABLE flow))
     + (SELECT count(*) FROM ff_edge_group WHERE flow_id NOT IN (TABLE flow)))sql";

/// An execution, or a flow.
struct Unit {
  std::string flow;  ///< empty: none
  std::vector<std::string> members;
  std::string living;        ///< the member for whose sake it stays; empty: it goes
  std::string public_state;  ///< of that
};

class Retention {
 public:
  explicit Retention(World& world) : world_(world) {}

  Seen run(int kills) {
    for (int i = 0; i < kills; ++i) {
      RunningDaemon doomed({.conninfo = world_.conninfo(), .config = kConfig});
      wait_until_ready(doomed);
      make_units(i % kPartitions);
      std::this_thread::sleep_for(Milliseconds{below(kLongestLife)});
      doomed.process().signal(SIGKILL);
      doomed.process().wait();
      pass(kRound);
    }
    judge();
    return seen_;
  }

 private:
  void make_units(int partition) {
    for (const Unit& its : ended_) replay(its);
    ended_.clear();
    const auto alone = [&](const Json& more = {}) {
      Json arguments{{"partition", partition}};
      arguments.update(more.is_null() ? Json::object() : more);
      return world_.execution(arguments);
    };
    units_.push_back({{}, {complete(alone())}, {}, {}});
    units_.push_back({{}, {alone()}, {}, {}});
    world_.real.call("cancel_execution", {{"execution", units_.back().members[0]}});
    const std::string waits = alone();
    add_living({}, {waits});
    const std::string sleeps = alone();
    world_.take("claim_execution", sleeps);
    world_.real.call("suspend", {{"handle", "h"}});
    add_living({}, {sleeps});
    ended_.push_back({{}, {complete(alone())}, {}, {}});
    make_flows(partition);
  }

  void make_flows(int partition) {
    const auto flow = [&] {
      return world_.real.call("create_flow", {{"partition", partition}}).at("flow").get<std::string>();
    };
    const auto member = [&](const std::string& of) { return world_.execution({{"flow", of}}); };
    const std::string over = flow();
    units_.push_back({over, {complete(member(over)), complete(member(over))}, {}, {}});
    const std::string lives = flow();
    const std::string waits = member(lives);
    const std::string over_before = complete(member(lives));
    add_living(lives, {over_before, waits});
    // Its downstream is skipped by the daemon.
    const std::string fails = flow();
    const std::string upstream = member(fails);
    const std::string downstream =
        world_.real.call("create_execution", {{"flow", fails}}).at("execution").get<std::string>();
    world_.real.call("stage_edge",
                     {{"flow", fails}, {"upstream", upstream}, {"downstream", downstream}, {"apply", true}});
    world_.take("claim_execution", upstream);
    world_.real.call("fail", {{"handle", "h"}, {"class", "permanent"}});
    units_.push_back({fails, {upstream, downstream}, {}, {}});
  }

  std::string complete(const std::string& execution) {
    world_.take("claim_execution", execution);
    world_.real.call("complete", {{"handle", "h"}});
    return execution;
  }

  // Its former end is older than its age soon, and it lives.
  void replay(const Unit& its) {
    world_.real.call("replay_execution", {{"execution", its.members[0]}});
    add_living({}, its.members);
    ++replayed_;
  }

  // For the sake of its last member.
  void add_living(const std::string& flow, const std::vector<std::string>& members) {
    units_.push_back(
        {flow, members, members.back(), world_.core(members.back()).at("public_state").get<std::string>()});
  }

  // The session of a daemon that was killed may still be at work.
  void pass(std::int64_t ms) {
    for (int tries = 10;; --tries) try {
        return age(world_.connection, ms);
      } catch (const pg::Error& error) {
        if (tries == 0 || !error.retryable()) throw;
      }
  }

  void judge() {
    for (const Unit& its : ended_) replay(its);
    RunningDaemon daemon({.conninfo = world_.conninfo(), .config = kConfig});
    wait_until_ready(daemon);
    std::vector<std::string> old;
    for (const Unit& its : units_)
      if (its.living.empty()) old.insert(old.end(), its.members.begin(), its.members.end());
    // What the daemon ends has to grow old, too.
    wait_until([&] { return there(old, "lifecycle_phase NOT IN ('terminal', 'cancelled')") == 0; },
               kPatience);
    for (int round = 0; round < 3; ++round) {
      pass(kRound);
      std::this_thread::sleep_for(Milliseconds{1000});
    }
    wait_until([&] { return there(old) == 0; }, kPatience);
    const auto left = there(old);
    seen_.expect(left == 0, fmt::format("{} old executions are still there; the daemon says: {}", left,
                                        daemon.process().err()));
    for (const std::string& each : old)
      if (left > 0 && there({each}) > 0) seen_.expect(false, each + " is still " + world_.states(each));
    int kept = 0;
    for (const Unit& its : units_) kept += judge_living(its);
    const auto orphans = number(world_.connection, kOrphans);
    seen_.expect(orphans == 0, fmt::format("{} rows name what is gone", orphans));
    seen_.expect(daemon.stop() == 0, "the daemon did not end well: " + daemon.process().err());
    seen_.figures =
        fmt::format("{} executions and flows, {} replayed: {} executions gone, {} units kept that live",
                    units_.size(), replayed_, old.size(), kept);
  }

  std::int64_t there(const std::vector<std::string>& executions, const std::string& which = "true") {
    std::vector<std::string> ids;
    ids.reserve(executions.size());
    for (const std::string& each : executions) ids.push_back(World::uuid(each));
    return number(world_.connection,
                  "SELECT count(*) FROM ff_exec_core WHERE execution_id = ANY($1::uuid[]) AND " + which,
                  pg::Params::of(ids));
  }

  /// 1: it lives, is whole, and goes on; 0: it has to go.
  int judge_living(const Unit& its) {
    if (its.living.empty()) return 0;
    const auto members = there(its.members);
    seen_.expect(members == std::ssize(its.members), fmt::format("of the {} executions of {} {} are there",
                                                                 its.members.size(), its.living, members));
    const Json core = world_.core(its.living);
    if (core.is_null()) return 0;
    const auto state = core.at("public_state").get<std::string>();
    seen_.expect(state == its.public_state, its.living + " was " + its.public_state + ", and is " + state);
    if (its.public_state == "suspended") {
      seen_.expect(!world_.suspension(its.living).is_null() && world_.waitpoints(its.living) > 0,
                   its.living + " has lost its suspension or waitpoint");
    } else {
      const std::string refused = world_.taken_by("claim_execution", its.living);
      seen_.expect(refused.empty(), its.living + " is not taken: " + refused);
    }
    return 1;
  }

  int below(int most) { return std::uniform_int_distribution<int>(0, most - 1)(dice_); }

  World& world_;
  std::mt19937 dice_{20'261'125};
  std::vector<Unit> units_;
  std::vector<Unit> ended_;  ///< to be replayed
  int replayed_ = 0;
  Seen seen_;
};

}  // namespace

Seen retention(World& world, const Scale& scale) {
  return Retention(world).run(scale.count);
}

}  // namespace ff::test::trials
