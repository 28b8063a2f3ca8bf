// FlowFabric killed in mid-cancel, again and again: what becomes of the backlog, and of the workers of its members. A program
// over FlowFabric's crates does what its server does.
#include <csignal>
#include <future>
#include <random>
#include <set>
#include <thread>

#include "trials/trial.hpp"

namespace ff::test::trials {
namespace {

constexpr std::int64_t kEmptyWithin = 15'000;
constexpr const char* kName = "doomed-canceller";

struct Member {
  std::string execution;
  std::string handle;  ///< empty: nobody works on it
  bool acknowledged = false;
};

struct Cut {
  std::string flow;
  std::vector<Member> members;
  SteadyTime killed_at{};
  bool header_is_there = false;
};

/// One that cancels a flow as FlowFabric's server does, call by call, and dies of it.
class Canceller {
 public:
  explicit Canceller(const std::string& url) : real_(url) {
    real_.refusal("describe_flow");  // connected
  }
  pid_t pid() const { return real_.pid(); }
  /// Until it is done, or dead.
  void cancel(const Cut& cut) {
    try {
      const Json told = real_.call("cancel_flow_header", {{"flow", cut.flow}, {"policy", "cancel_all"}});
      for (const Json& member : told.at("members")) {
        real_.call("cancel_execution", {{"execution", member}});
        real_.call("ack_cancel_member", {{"flow", cut.flow}, {"execution", member}});
      }
    } catch (const std::runtime_error&) {
      // Killed: what it has left is what is tried.
    }
  }

 private:
  FlowFabric real_;
};

class Backlogs {
 public:
  Backlogs(World& world, int count) : world_(world), count_(count) {}

  Seen run() {
    RunningDaemon daemon({.conninfo = world_.conninfo(), .config = kSixteenPartitions});
    wait_until_ready(daemon);
    for (int i = 0; i < count_; ++i) {
      cuts_.push_back(flow(i));
      cut_down(cuts_.back());
      poll();
    }
    wait_until([&] { return poll(); }, Milliseconds{2 * kEmptyWithin});
    // What its server has acknowledged has no row left: it is found among all leases.
    wait_until(
        [&] {
          return number(
                     world_.connection,
                     "SELECT count(*) FROM ff_attempt JOIN ff_exec_core USING (partition_key, execution_id)"
                     " WHERE lease_expires_at_ms IS NOT NULL AND lifecycle_phase = 'cancelled'") == 0;
        },
        Milliseconds{2 * kEmptyWithin});
    judge();
    seen_.expect(daemon.stop() == 0, "the daemon did not end well: " + daemon.process().err());
    return seen_;
  }

 private:
  Cut flow(int i) {
    Cut its{.flow = world_.real.call("create_flow", {{"partition", i % 4}}).at("flow"), .members = {}};
    for (int m = 0, all = 2 + below(7); m < all; ++m) {
      const std::string name = fmt::format("m{}_{}", i, m);
      const std::string execution = world_.execution({{"flow", its.flow}, {"lane", name}});
      const int kind = below(3);
      its.members.push_back({execution, kind == 0 ? "" : name});
      if (kind == 0) continue;
      world_.take(m % 2 == 0 ? "claim_execution" : "claim", execution, name, 600'000, {{"lane", name}});
      if (kind == 2) world_.real.call("suspend", {{"handle", name}});
    }
    return its;
  }

  // The first is not cut, and tells how long it takes.
  void cut_down(Cut& its) {
    Canceller doomed(world_.url() + "&application_name=" + kName);
    const SteadyTime started = Clock::system().now();
    auto done = std::async(std::launch::async, [&] { doomed.cancel(its); });
    if (takes_.count() > 0)
      std::this_thread::sleep_for(std::chrono::microseconds{below(static_cast<int>(takes_.count()))});
    else
      done.wait();
    ::kill(doomed.pid(), SIGKILL);
    its.killed_at = Clock::system().now();
    done.wait();
    if (takes_.count() == 0)
      takes_ = std::chrono::duration_cast<std::chrono::microseconds>(its.killed_at - started);
    wait_for_silence();
    learn(its);
  }

  // What a killed process has sent may still be under way.
  void wait_for_silence() {
    const bool silent = wait_until([&] {
      return number(world_.connection, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1",
                    pg::Params::of(kName)) == 0;
    });
    if (!silent) throw std::runtime_error("sessions of a process that was killed stay");
  }

  void learn(Cut& its) {
    its.header_is_there = number(world_.connection,
                                 "SELECT count(*) FROM ff_flow_core WHERE flow_id = $1::uuid"
                                 " AND public_flow_state = 'cancelled'",
                                 pg::Params::of(its.flow)) == 1;
    std::set<std::string> left;
    for (const auto& row : world_.connection.execute(
             "SELECT execution_id FROM ff_cancel_backlog_member WHERE flow_id = $1::uuid",
             pg::Params::of(its.flow)))
      left.insert(row.get<std::string>(0));
    for (Member& member : its.members)
      member.acknowledged = its.header_is_there && !left.contains(member.execution);
    if (!left.empty()) ++midway_;
  }

  /// Notes whose backlog is gone; true when none is left.
  bool poll() {
    std::set<std::string> open;
    for (const auto& row : world_.connection.execute("SELECT flow_id::text FROM ff_cancel_backlog"))
      open.insert(row.get<std::string>(0));
    const SteadyTime now = Clock::system().now();
    for (const Cut& its : cuts_)
      if (its.header_is_there && !open.contains(its.flow) && gone_.insert(its.flow).second)
        late_.add(std::chrono::duration_cast<Milliseconds>(now - its.killed_at).count());
    return open.empty();
  }

  void judge() {
    int acknowledged = 0;
    int refused = 0;
    for (const Cut& its : cuts_) {
      if (!its.header_is_there) continue;
      seen_.expect(gone_.contains(its.flow), its.flow + " has its backlog still");
      for (const Member& member : its.members) {
        acknowledged += member.acknowledged ? 1 : 0;
        if (member.handle.empty()) continue;
        const bool completes = world_.real.refusal("complete", {{"handle", member.handle}}).empty();
        refused += completes ? 0 : 1;
        seen_.expect(!completes, member.execution + " was completed by its worker");
      }
    }
    seen_.expect(late_.most() <= kEmptyWithin,
                 fmt::format("a backlog was empty only {} ms after", late_.most()));
    seen_.figures = fmt::format(
        "{} kills, {} with members left; backlogs empty after {}; {} workers refused; FlowFabric had "
        "acknowledged {} members",
        cuts_.size(), midway_, late_.text(), refused, acknowledged);
  }

  int below(int most) { return std::uniform_int_distribution<int>(0, most - 1)(dice_); }

  World& world_;
  const int count_;
  std::mt19937 dice_{20'261'124};
  std::chrono::microseconds takes_{0};
  std::vector<Cut> cuts_;
  std::set<std::string> gone_;
  Lateness late_;
  int midway_ = 0;
  Seen seen_;
};

}  // namespace

Seen backlogs(World& world, const Scale& scale) {
  return Backlogs(world, scale.count).run();
}

}  // namespace ff::test::trials
