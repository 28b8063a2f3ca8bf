// Fan-ins that FlowFabric left counting an upstream that is over, and those that only look like it.
#include <csignal>
#include <future>

#include "flow.hpp"
#include "trials/trial.hpp"

namespace ff::test::trials {
namespace {

constexpr Milliseconds kBlockedWithin{30'000};
constexpr Milliseconds kRecountedWithin{180'000};

/// What became of a fan-in.
enum class Kind { applied_late, dispatcher_killed, still_staged, replayed, at_work };
constexpr int kKinds = 5;

struct FanIn {
  Kind kind{};
  std::string flow;
  std::string lane;
  std::string downstream;
};

struct Stage {
  World& world;

  std::string member(const Json& flow, const std::string& lane) {
    return world.execution({{"flow", flow}, {"lane", lane}});
  }
  void edge(const FanIn& its, const std::string& upstream, bool apply = true) {
    world.real.call(
        "stage_edge",
        {{"flow", its.flow}, {"upstream", upstream}, {"downstream", its.downstream}, {"apply", apply}});
  }
  void complete(const std::string& lane) {
    if (world.real.call("claim", {{"lane", lane}, {"as", lane}}).is_null())
      throw std::runtime_error("nobody is in the lane " + lane);
    world.real.call("complete", {{"handle", lane}});
  }
  void dispatch() { world.real.call("scan", {{"name", "dispatch_completion"}}); }

  /// A dispatcher of FlowFabric's has marked the event and waits for the group, which we hold; then it is killed.
  bool kill_dispatcher(const FanIn& its) {
    const std::string name = "doomed-dispatcher";
    FlowFabric dispatcher(world.url() + "&application_name=" + name);
    pg::Connection holder = world.connector().connect(Clock::system().now() + kBlockedWithin);
    holder.execute_script("BEGIN");
    holder.execute("SELECT FROM ff_edge_group WHERE flow_id = $1::uuid FOR UPDATE", pg::Params::of(its.flow));
    auto told = std::async(std::launch::async, [&] {
      try {
        dispatcher.call("scan", {{"name", "dispatch_completion"}});
        return false;
      } catch (const std::runtime_error&) {
        return true;  // it has ended
      }
    });
    const auto sessions = [&](const std::string& that) {
      return number(world.connection,
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND " + that,
                    pg::Params::of(name));
    };
    const bool blocked =
        wait_until([&] { return sessions("wait_event_type = 'Lock'") == 1; }, kBlockedWithin);
    ::kill(dispatcher.pid(), SIGKILL);
    const bool killed = told.get();
    holder.execute_script("ROLLBACK");
    return blocked && killed && wait_until([&] { return sessions("true") == 0; });
  }

  FanIn make(Kind kind, int i) {
    const std::string number = std::to_string(i);
    FanIn its{kind, world.real.call("create_flow", {{"partition", 2}}).at("flow"), "down" + number, {}};
    its.downstream = member(its.flow, its.lane);
    const std::string lane = "up" + number;
    const std::string upstream = member(its.flow, lane);
    switch (kind) {
      case Kind::applied_late:
      case Kind::still_staged:
        complete(lane);
        dispatch();
        edge(its, upstream);
        if (kind == Kind::still_staged) edge(its, upstream, false);
        break;
      case Kind::dispatcher_killed:
        edge(its, upstream);
        complete(lane);
        if (!kill_dispatcher(its))
          throw std::runtime_error("the dispatcher was not killed before its effect");
        break;
      case Kind::replayed:
        complete(its.lane);
        complete(lane);
        dispatch();
        world.real.call("replay_execution", {{"execution", its.downstream}});
        edge(its, upstream);
        break;
      case Kind::at_work:
        edge(its, upstream);
        break;
    }
    return its;
  }
};

bool is_misled(const FanIn& its) {
  return its.kind == Kind::applied_late || its.kind == Kind::dispatcher_killed;
}

std::int64_t running(World& world, const FanIn& its) {
  return number(world.connection, "SELECT sum(running_count) FROM ff_edge_group WHERE flow_id = $1::uuid",
                pg::Params::of(its.flow));
}

/// Until all that are misled are counted anew; the shorter form does not wait for the minute.
void recount(World& world, const std::vector<FanIn>& all, const Scale& scale, Seen& seen) {
  if (!scale.is_long) {
    world.tick("group_recount");
    return;
  }
  RunningDaemon daemon({.conninfo = world.conninfo(), .config = kSixteenPartitions});
  wait_until_ready(daemon);
  wait_until(
      [&] {
        return std::ranges::none_of(
            all, [&](const FanIn& its) { return is_misled(its) && running(world, its) > 0; });
      },
      kRecountedWithin);
  seen.expect(daemon.stop() == 0, "the daemon did not end well: " + daemon.process().err());
}

}  // namespace

Seen groups(World& world, const Scale& scale) {
  Seen seen;
  Stage stage{world};
  std::vector<FanIn> all;
  for (int i = 0; i < scale.count; ++i) all.push_back(stage.make(static_cast<Kind>(i % kKinds), i));
  for (const FanIn& its : all)
    seen.expect(running(world, its) == 1, its.downstream + " does not count one as running");
  const SteadyTime started = Clock::system().now();

  recount(world, all, scale, seen);

  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::system().now() - started);
  int recounted = 0;
  for (const FanIn& its : all) {
    seen.expect(running(world, its) == (is_misled(its) ? 0 : 1),
                its.downstream + " is not counted as it should be");
    if (!is_misled(its)) continue;
    ++recounted;
    seen.expect(!world.real.call("claim", {{"lane", its.lane}, {"as", "h"}}).is_null(),
                its.downstream + " cannot be claimed");
  }
  seen.figures = fmt::format("{} fan-ins counted anew, {} left alone, within {} s", recounted,
                             std::ssize(all) - recounted, seconds.count());
  return seen;
}

}  // namespace ff::test::trials
