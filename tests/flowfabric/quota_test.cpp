// Quotas of the real FlowFabric: many admit at once, some release, most crash or end without a word, while the count of
// those at work is corrected beside them.
#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <thread>

#include "call_times.hpp"
#include "world.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr std::int64_t kCap = 1'000'000;  // nobody is refused for want of room
constexpr int kCallers = 3;
constexpr int kCalls = 250;  // of each
constexpr std::int64_t kDay = 86'400'000;

/// Whom a caller admits: few, so that they are admitted anew once their window is over.
std::string some_execution(std::mt19937_64& generator) {
  return "{fp:1}:00000000-0000-4000-8000-00000000000" + std::to_string(generator() % 10);
}

struct Counted {
  std::int64_t count = 0;
  std::int64_t admitted = 0;
};

/// All in partition 3: a statement over every hash child takes seconds to be planned and compiled.
struct Quotas {
  std::string add(std::int64_t cap = kCap) {
    return world.real.call("create_quota_policy", {{"partition", 3}, {"cap", cap}}).at("quota");
  }
  std::string admit(FlowFabric& real, const std::string& quota, const std::string& execution,
                    std::int64_t ago_ms = 0, std::int64_t cap = kCap) {
    return real
        .call("check_admission", {{"quota", quota},
                                  {"execution", execution},
                                  {"cap", cap},
                                  {"window_seconds", 300},
                                  {"now_ms", now_ms(world.connection) - ago_ms}})
        .get<std::string>();
  }
  void release(FlowFabric& real, const std::string& quota, const std::string& execution) {
    real.call("release_admission", {{"quota", quota}, {"execution", execution}});
  }
  Counted counted(const std::string& quota) {
    const auto found = world.connection.execute(
        "SELECT active_concurrency, (SELECT count(*) FROM ff_quota_admitted g"
        "                             WHERE g.partition_key = 3 AND g.quota_policy_id = q.quota_policy_id)"
        "  FROM ff_quota_policy q WHERE partition_key = 3 AND quota_policy_id = $1",
        pg::Params::of(quota));
    return {found.one().get<std::int64_t>(0), found.one().get<std::int64_t>(1)};
  }
  std::int64_t writes(const std::string& quota) {
    return number(
        world.connection,
        "SELECT xmin::text::bigint FROM ff_quota_policy WHERE partition_key = 3 AND quota_policy_id = $1",
        pg::Params::of(quota));
  }

  World world;
};

/// One that admits and releases with a FlowFabric and a connection of its own.
class Caller {
 public:
  Caller(Quotas& quotas, std::vector<std::string> of, CallTimes& times, std::uint64_t seed)
      : real_(quotas.world.url()), of_(std::move(of)), times_(times), generator_(seed) {}

  void live() {
    for (int i = 0; i < kCalls; ++i) {
      const std::string& quota = of_[generator_() % of_.size()];
      const std::string execution = some_execution(generator_);
      Json arguments{{"quota", quota}, {"execution", execution}};
      const bool releases = generator_() % 4 == 0;
      // Of now, or of days ago, so that it is to be deleted.
      if (!releases)
        arguments.update({{"cap", kCap},
                          {"window_seconds", 1},
                          {"now_ms", times_.next() - static_cast<std::int64_t>(generator_() % 3) * kDay}});
      try {
        const Json told = real_.call(releases ? "release_admission" : "check_admission", arguments);
        if (!releases) ++told_[told.get<std::string>()];
      } catch (const FlowFabricError& error) {
        ++told_[error.kind()];
      }
    }
  }
  const std::map<std::string, int>& told() const { return told_; }

 private:
  FlowFabric real_;
  const std::vector<std::string> of_;
  CallTimes& times_;
  std::mt19937_64 generator_;
  std::map<std::string, int> told_;
};

}  // namespace

TEST_CASE("a quota whose admissions crashed admits again, as far as its cap") {
  Quotas t;
  const std::string quota = t.add(2);
  CHECK(t.admit(t.world.real, quota, t.world.execution(), 400'000, 2) == "Admitted");
  CHECK(t.admit(t.world.real, quota, t.world.execution(), 400'000, 2) == "Admitted");
  CHECK(t.admit(t.world.real, quota, t.world.execution(), 0, 2) == "ConcurrencyExceeded");
  CHECK(t.world.tick("quota_concurrency") == "corrected=1");
  CHECK(t.admit(t.world.real, quota, t.world.execution(), 0, 2) == "Admitted");
  CHECK(t.admit(t.world.real, quota, t.world.execution(), 0, 2) == "Admitted");
  CHECK(t.admit(t.world.real, quota, t.world.execution(), 0, 2) == "ConcurrencyExceeded");
}

TEST_CASE(
    "an execution that is admitted anew counts once after a correction, and its release takes that off") {
  Quotas t;
  const std::string quota = t.add();
  const std::string execution = t.world.execution();
  CHECK(t.admit(t.world.real, quota, execution, 330'000) == "Admitted");
  CHECK(t.admit(t.world.real, quota, execution) == "Admitted");
  CHECK(t.counted(quota).count == 2);
  CHECK(t.world.tick("quota_concurrency") == "corrected=1");
  CHECK(t.counted(quota).count == 1);
  t.release(t.world.real, quota, execution);
  CHECK(t.counted(quota).count == 0);
  t.release(t.world.real, quota, execution);
  CHECK(t.counted(quota).count == 0);
}

TEST_CASE("an execution that is admitted anew in the same millisecond is refused by FlowFabric itself") {
  Quotas t;
  const std::string quota = t.add();
  const Json admission{{"quota", quota},
                       {"execution", t.world.execution()},
                       {"cap", kCap},
                       {"window_seconds", 1},
                       {"now_ms", now_ms(t.world.connection)}};
  CHECK(t.world.real.call("check_admission", admission) == "Admitted");
  t.release(t.world.real, quota, admission.at("execution"));
  // The window keeps the row of the first, and has one for both.
  CHECK(t.world.real.refusal("check_admission", admission) == "Conflict.RotationConflict");
}

TEST_CASE("a turn that corrects nothing writes nothing, so that no admission fails by it") {
  Quotas t;
  const std::string quota = t.add();
  CHECK(t.admit(t.world.real, quota, t.world.execution()) == "Admitted");
  const auto before = t.writes(quota);
  CHECK(t.world.tick("quota_concurrency").empty());
  CHECK(t.writes(quota) == before);
}

TEST_CASE(
    "beside callers at once that crash and release, a count is exact after the last correction, by seed") {
  const auto seed = GENERATE(std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3});
  CAPTURE(seed);
  Quotas t;
  const std::vector<std::string> quotas{t.add(), t.add()};
  CallTimes times;
  std::atomic<int> at_work = kCallers;
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < kCallers; ++i)
    callers.push_back(std::make_unique<Caller>(t, quotas, times, seed * 100 + static_cast<std::uint64_t>(i)));
  std::vector<std::thread> threads;
  for (auto& caller : callers)
    threads.emplace_back([&] {
      caller->live();
      --at_work;
    });
  std::int64_t corrected = 0;
  bool below = false;
  EngineFixture engine(t.world.connector(), "quota_concurrency");
  while (at_work > 0) {
    const auto report = engine->tick();
    CHECK_FALSE(report.failure);
    CHECK(report.error_count() == 0);
    if (report.outcomes.contains("corrected")) corrected += report.outcomes.at("corrected");
    // Each admission adds one and each release takes one off: a count that is too low is our fault.
    for (const std::string& quota : quotas) {
      const Counted now = t.counted(quota);
      below = below || now.count < now.admitted;
    }
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(below);
  CHECK(corrected > 0);

  std::map<std::string, int> told;
  for (const auto& caller : callers)
    for (const auto& [word, count] : caller->told()) told[word] += count;
  CHECK(told["Admitted"] > 0);
  CHECK(told["ConcurrencyExceeded"] == 0);
  // What a serializable transaction that lost is told of, whoever won.
  for (const auto& [word, count] : told) {
    CAPTURE(word);
    CHECK(std::set<std::string>{"Admitted", "AlreadyAdmitted", "ConcurrencyExceeded",
                                "Contention.LeaseConflict"}
              .contains(word));
  }
  const std::int64_t before = now_ms(t.world.connection);
  t.world.tick("quota_concurrency");
  for (const std::string& quota : quotas) {
    const Counted now = t.counted(quota);
    CHECK(now.count == now.admitted);
  }
  CHECK(number(t.world.connection,
               "SELECT count(*) FROM ff_quota_admitted WHERE partition_key = 3 AND expires_at_ms < $1",
               pg::Params::of(before - 60'000)) == 0);
}

TEST_CASE("the window of a quota in use is left to it, that of an idle one is deleted") {
  Quotas t;
  const std::string idle = t.add();
  const std::string used = t.add();
  for (const std::string& quota : {idle, used})
    CHECK(t.admit(t.world.real, quota, t.world.execution(), 2 * 86'400'000) == "Admitted");
  t.world.connection.execute(
      "UPDATE ff_quota_window SET admitted_at_ms = $1 WHERE partition_key = 3 AND quota_policy_id = $2",
      pg::Params::of(now_ms(t.world.connection) - 3'600'000, used));
  CHECK(t.world.tick("quota_window") == "window_rows_deleted=1");
  CHECK(number(t.world.connection,
               "SELECT count(*) FROM ff_quota_window WHERE partition_key = 3 AND quota_policy_id = $1",
               pg::Params::of(used)) == 1);
  CHECK(t.admit(t.world.real, idle, t.world.execution()) == "Admitted");
}
