#include "demo/simulation/special_cases.hpp"

#include <random>

namespace ff::simulation {
namespace {

using namespace std::chrono_literals;
using Kind = Plan::Kind;

constexpr Milliseconds kBetween = 400ms;
constexpr Milliseconds kDeadline = 2500ms;
constexpr Milliseconds kLongLease = 20s;  // many times as long as a silent worker is taken for alive
constexpr std::int32_t kBeforeOrdinary = 1;

Plan delay(Milliseconds length) {
  return {.kind = Kind::delay, .length = length};
}

Plan suspension(Milliseconds timeout, std::optional<std::string> behavior) {
  return {.kind = Kind::suspend,
          .suspension = {.timeout_in = timeout,
                         .timeout_behavior = std::move(behavior),
                         .waitpoints = {{.key = "approval"}, {.key = ""}, {.key = "callback"}}}};
}

// The answer comes in time; the time-out passes while somebody works on.
Plan answered_suspension(Milliseconds answer) {
  Plan plan = suspension(answer + kWorkAfterAnswer / 2, "fail");
  plan.kind = Kind::answered_suspend;
  plan.length = answer;
  plan.suspension.waitpoints.front().key = kAnswered;
  return plan;
}

std::vector<Plan> plans(bool with_silence) {
  std::vector<Plan> all = {
      {.kind = Kind::crash},
      suspension(1500ms, "auto_resume_with_timeout_signal"),
      delay(600ms),
      {.kind = Kind::hang},
      suspension(900ms, "fail"),
      answered_suspension(700ms),
      {.kind = Kind::forget_waitpoint, .length = 1200ms},
      suspension(1500ms, "cancel"),
      delay(1200ms),
      suspension(1200ms, "escalate"),
      suspension(900ms, "auto_resume_with_timeout_signal"),
      suspension(2000ms, "expire"),
      {.kind = Kind::taken_over},
      delay(300ms),
      suspension(700ms, std::nullopt),
      suspension(1000ms, "a_word_that_nobody_knows"),
  };
  if (with_silence) all.insert(all.begin(), {.kind = Kind::fall_silent, .length = kLongLease});
  return all;
}

}  // namespace

void SpecialCases::live() {
  const Partitions& partitions = workload_.options_.partitions;
  const std::vector<Plan> all = plans(workload_.options_.silent_workers);
  std::mt19937_64 generator{std::random_device{}()};
  std::uniform_int_distribution<std::size_t> die(0, partitions.size() - 1);
  for (std::size_t turn = 0; !workload_.finishing_; ++turn) {
    make(all[turn % all.size()], partitions[die(generator)]);
    if (!workload_.pause(kBetween)) return;
  }
}

void SpecialCases::make(const Plan& plan, PartitionKey partition) {
  NewExecution next;
  next.partition = partition;
  next.lane = workload_.options_.name;
  next.name_space = workload_.options_.name;
  next.priority = kBeforeOrdinary;
  if (plan.kind == Kind::hang) next.deadline_in = kDeadline;
  workload_.plans_.note([&] {
    const ExecutionId made = create(connection_, next);
    workload_.ledger_.created({made}, std::nullopt);
    return std::map<Uuid, Plan>{{made.uuid, plan}};
  });
}

}  // namespace ff::simulation
