// Admissions by callers that crash, while counters are corrected beside them and idle windows are emptied.
#include <atomic>
#include <cmath>
#include <csignal>
#include <future>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "call_times.hpp"
#include "trials/trial.hpp"

namespace ff::test::trials {
namespace {

constexpr std::int64_t kCap = 1'000'000;  // nobody is refused for want of room
constexpr int kCallers = 2;
constexpr int kExecutions = 500;
constexpr std::int64_t kDay = 86'400'000;

// Corrected as soon as they drift, so that there is much to disturb.
constexpr const char* kConfig = R"(
partitions: 0-15
reconcilers:
  quota_concurrency: {interval: 100ms}
  quota_window: {enabled: true, interval: 100ms}
)";

struct Quota {
  int partition = 0;
  std::string id;
};

/// One that admits, alone, to quotas in a partition of its own: with another in it, serializable transactions refuse
/// each other for what they read of the same pages, and so whoever refuses it for a conflict is the daemon.
class Caller {
 public:
  Caller(const World& world, std::vector<Quota> quotas, std::uint64_t seed)
      : url_(world.url()),
        quotas_(std::move(quotas)),
        dice_(seed),
        real_(std::make_unique<FlowFabric>(url_)) {}

  /// Until so many were admitted.
  void live(int admissions) {
    while (admitted < admissions) {
      try {
        step();
      } catch (const FlowFabricError& error) {
        ++refused[error.kind()];
      } catch (const std::runtime_error&) {
        // Killed in the middle of it; nobody releases what it had.
        const std::lock_guard lock(mutex_);
        real_ = std::make_unique<FlowFabric>(url_);
        ++crashes;
      }
    }
  }

  void kill() {
    const std::lock_guard lock(mutex_);
    ::kill(real_->pid(), SIGKILL);
  }

  std::atomic<int> admitted = 0;
  int crashes = 0;
  int released = 0;
  std::map<std::string, int> refused;

 private:
  void step() {
    const std::string& quota = quotas_[dice_() % quotas_.size()].id;
    Json arguments{
        {"quota", quota},
        {"execution", fmt::format("{{fp:1}}:00000000-0000-4000-8000-{:012}", dice_() % kExecutions)}};
    if (dice_() % 8 == 0) {
      real_->call("release_admission", arguments);
      ++released;
      return;
    }
    // Of now, or of so long ago that it is to be deleted.
    constexpr std::int64_t kAgo[] = {0, 61'000, 122'000, 2 * kDay};
    arguments.update(
        {{"cap", kCap}, {"window_seconds", 1}, {"now_ms", times_.next() - kAgo[dice_() % std::size(kAgo)]}});
    const auto told = real_->call("check_admission", arguments).get<std::string>();
    if (told == "Admitted")
      ++admitted;
    else if (told != "AlreadyAdmitted")
      ++refused[told];
  }

  const std::string url_;
  const std::vector<Quota> quotas_;
  std::mt19937_64 dice_;
  CallTimes times_;
  std::mutex mutex_;  // over the program that is there
  std::unique_ptr<FlowFabric> real_;
};

struct Counted {
  std::int64_t count = 0;
  std::int64_t admitted = 0;
};

Counted counted(World& world, const Quota& quota) {
  const auto found = world.connection.execute(
      "SELECT active_concurrency, (SELECT count(*)"
      "  FROM ff_quota_admitted g"
      " WHERE g.partition_key = $1::smallint AND g.quota_policy_id = q.quota_policy_id)"
      "  FROM ff_quota_policy q WHERE partition_key = $1::smallint AND quota_policy_id = $2",
      pg::Params::of(quota.partition, quota.id));
  return {found.one().get<std::int64_t>(0), found.one().get<std::int64_t>(1)};
}

class Quotas {
 public:
  explicit Quotas(World& world) : world_(world) {
    for (int i = 0; i < kCallers; ++i) {
      const int partition = i + 1;
      std::vector<Quota> own{add(partition), add(partition)};
      quotas_.insert(quotas_.end(), own.begin(), own.end());
      leave(add(partition));
      callers_.push_back(std::make_unique<Caller>(world, own, static_cast<std::uint64_t>(i) + 1));
    }
  }

  Seen run(int admissions) {
    RunningDaemon daemon({.conninfo = world_.conninfo(), .config = kConfig});
    wait_until_ready(daemon);
    beside(admissions);
    const bool exact = wait_until([&] {
      return std::ranges::all_of(quotas_, [&](const Quota& quota) {
        const Counted now = counted(world_, quota);
        return now.count == now.admitted;
      });
    });
    seen_.expect(exact, "a counter is not what a recount says");
    judge(daemon);
    seen_.expect(daemon.stop() == 0, "the daemon did not end well: " + daemon.process().err());
    return seen_;
  }

 private:
  Quota add(int partition) {
    return {partition,
            world_.real.call("create_quota_policy", {{"partition", partition}, {"cap", kCap}}).at("quota")};
  }
  // Admitted to two days ago, and never since.
  void leave(const Quota& quota) {
    world_.real.call("check_admission", {{"quota", quota.id},
                                         {"execution", world_.execution()},
                                         {"cap", kCap},
                                         {"window_seconds", 1},
                                         {"now_ms", now_ms(world_.connection) - 2 * kDay}});
  }

  // Each admission adds one and each release takes one off: a counter that is too low is our fault.
  void beside(int admissions) {
    std::vector<std::future<void>> lives;
    for (auto& caller : callers_)
      lives.push_back(std::async(std::launch::async, [&] { caller->live(admissions / kCallers); }));
    std::mt19937 dice(7);
    bool below = false;
    for (auto& life : lives)
      while (life.wait_for(Milliseconds{100 + dice() % 400}) == std::future_status::timeout) {
        for (const Quota& quota : quotas_) {
          const Counted now = counted(world_, quota);
          below = below || now.count < now.admitted;
        }
        if (dice() % 4 == 0) callers_[dice() % callers_.size()]->kill();
      }
    for (auto& life : lives) life.get();
    seen_.expect(!below, "a counter was below a recount");
  }

  void judge(RunningDaemon& daemon) {
    const auto moved = [&](const std::string& reconciler, const std::string& outcome) {
      return std::llround(daemon.metric(fmt::format(
          R"(ff_reconciler_processed_total{{outcome="{}",reconciler="{}"}})", outcome, reconciler)));
    };
    const auto corrected = moved("quota_concurrency", "corrected");
    const auto emptied = moved("quota_window", "window_rows_deleted");
    int admitted = 0;
    int crashes = 0;
    std::map<std::string, int> refused;
    for (const auto& caller : callers_) {
      admitted += caller->admitted;
      crashes += caller->crashes;
      for (const auto& [kind, times] : caller->refused) refused[kind] += times;
    }
    const int conflicts = refused["Contention.LeaseConflict"];
    refused.erase("Contention.LeaseConflict");
    for (const auto& [kind, times] : refused)
      seen_.expect(false, fmt::format("refused {} times: {}", times, kind));
    seen_.expect(conflicts <= corrected, fmt::format("{} conflicts, {} corrections", conflicts, corrected));
    seen_.expect(corrected > 0 && emptied >= kCallers && crashes > 0, "nothing happened that could go wrong");
    seen_.figures = fmt::format(
        "{} admissions, {} crashes of callers: {} corrections, {} rows of idle windows deleted, {} "
        "LeaseConflict, no "
        "ConcurrencyExceeded",
        admitted, crashes, corrected, emptied, conflicts);
  }

  World& world_;
  std::vector<Quota> quotas_;
  std::vector<std::unique_ptr<Caller>> callers_;
  Seen seen_;
};

}  // namespace

Seen quotas(World& world, const Scale& scale) {
  return Quotas(world).run(scale.count);
}

}  // namespace ff::test::trials
