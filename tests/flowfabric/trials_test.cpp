// What reconcilers promise beside FlowFabric's real writers, for long by `./dev conformance --trials`. In CI only what needs no
// running daemon: what of the others a tick can show is in grant_test, cancel_backlog_test and quota_test.
#include <cstdlib>
#include <iostream>

#include "trials/trial.hpp"

using namespace ff;
using namespace ff::test;
using trials::Scale;
using trials::Trial;

namespace {

constexpr Trial kTrials[] = {
    {"grant_expiry", 0, 1'000, trials::grants},        {"dead_worker", 0, 400, trials::deaths},
    {"group_recount", 5, 50, trials::groups},          {"index_repair", 0, 200, trials::indexes},
    {"cancel_backlog", 0, 100, trials::backlogs},      {"quota_concurrency", 0, 100'000, trials::quotas},
    {"execution_retention", 0, 200, trials::retention}};

std::string of_environment(const char* variable) {
  const char* given = std::getenv(variable);
  return given == nullptr ? "" : given;
}

Scale scale_of(const Trial& trial) {
  const bool is_long = of_environment("FF_TRIALS") == "long";
  const std::string count = of_environment("FF_TRIAL_COUNT");
  return {count.empty() ? (is_long ? trial.many : trial.few) : std::stoi(count), is_long};
}

}  // namespace

TEST_CASE("what each reconciler promises beside FlowFabric's real writers holds") {
  const std::string only = of_environment("FF_TRIAL");
  int tried = 0;
  for (const Trial& trial : kTrials) {
    if (!only.empty() && only != trial.name) continue;
    const Scale scale = scale_of(trial);
    if (scale.count == 0) continue;
    World world;
    const trials::Seen seen = trial.run(world, scale);
    std::cout << trial.name << ": " << seen.figures << std::endl;
    for (const std::string& fault : seen.faults) {
      INFO(trial.name << ": " << fault);
      CHECK(false);
    }
    ++tried;
  }
  INFO(
      "trials for long are of grant_expiry, dead_worker, group_recount, index_repair, cancel_backlog, "
      "quota_concurrency and execution_retention");
  CHECK(tried > 0);
}
