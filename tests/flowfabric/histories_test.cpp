// Random histories: real operations of FlowFabric's workers, clients and operators, with the daemon's
// reconcilers in between. What is said about a failing seed is enough to make a test of it.
//
//   FF_HISTORY_SEEDS=100-199   these instead of the fixed ones
//   FF_HISTORY_STEPS=600 FF_HISTORY_EXECUTIONS=60
//   FF_HISTORY_RAW=1           without shortening what fails
//
// The case "[compare]", which runs only by name, plays the same histories with FlowFabric's own scanners and counts.
#include <catch2/catch.hpp>
#include <iostream>
#include <map>
#include <set>

#include "histories/campaign.hpp"
#include "reconcile/family/registry.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr Seeds kSeeds{1, 17};
/// All operations and outcomes come about in these.
constexpr Seeds kWithEverything{1, 34};

/// Operations that no history needs: they set a database up, or only read. And one that has no place in them yet, because it
/// takes an execution in any state: what it leaves is in timer_test and flow_test.
const std::set<std::string> kNotPlayed{
    "migrate",       "seed_secret",   "read_execution", "remake_handle",
    "describe_flow", "budget_status", "scan",           "claim_from_resume_grant"};
/// Outcomes that need somebody beside the daemon in the middle of its turn, or rows that FlowFabric never leaves; and
/// five that chance brings about too seldom: see flow_test, edge_cancel_reconciler_test, cancel_backlog_test and suspension_test.
const std::set<std::string> kNotReached{"edge_cancel_dispatcher: orphaned",
                                        "edge_cancel_dispatcher: skipped_locked",
                                        "edge_cancel_dispatcher: malformed",
                                        "edge_cancel_reconciler: malformed",
                                        "cancel_backlog: malformed",
                                        "cancel_backlog: member_left",
                                        "dependency: noop",
                                        "completion_repair: unclear",
                                        "edge_cancel_reconciler: completed_drain",
                                        "dependency: woken",
                                        "group_recount: recounted",
                                        "stray_waitpoint: rekeyed"};
/// The kinds of operations.
const std::vector<std::string> kKinds{"set_edge_policy policy=all_of",
                                      "set_edge_policy policy=any_of",
                                      "set_edge_policy policy=quorum",
                                      "fail_execution with backoff_ms",
                                      "suspend with pending",
                                      "suspend with waitpoints",
                                      "suspend typed=true",
                                      "suspend timeout_behavior=fail",
                                      "suspend timeout_behavior=cancel",
                                      "suspend timeout_behavior=expire",
                                      "suspend timeout_behavior=escalate",
                                      "suspend timeout_behavior=auto_resume_with_timeout_signal",
                                      "resume_execution with resume_delay_ms",
                                      "resume_execution without resume_delay_ms",
                                      "cancel_execution with handle",
                                      "cancel_flow policy=flow_only",
                                      "cancel_flow policy=cancel_all",
                                      "cancel_flow policy=cancel_pending",
                                      "cancel_flow_header policy=flow_only",
                                      "cancel_flow_header policy=cancel_all",
                                      "cancel_flow_header policy=cancel_pending",
                                      "cut table=ff_exec_core",
                                      "cut table=ff_lease_event",
                                      "kill table=ff_exec_core",
                                      "kill table=ff_lease_event"};

std::vector<std::string> wanted() {
  std::vector<std::string> words = kKinds;
  for (const std::string& operation : FlowFabric::operations())
    if (!kNotPlayed.contains(operation)) words.push_back(operation);
  for (const std::string& name : rescuing_reconcilers())
    for (const std::string_view outcome : reconcile::all_outcomes(*reconcile::find_reconciler(name))) {
      const std::string word = name + ": " + std::string(outcome);
      if (!kNotReached.contains(word)) words.push_back(word);
    }
  return words;
}

}  // namespace

TEST_CASE("after a random history everybody has a future and nobody was harmed") {
  play(seeds_or(kSeeds), false);
}

// Before a release: it takes a quarter of an hour.
TEST_CASE("every operation and every outcome is in some random history", "[.][coverage]") {
  const Coverage coverage = play(kWithEverything, false);
  for (const std::string& word : wanted()) {
    INFO("in no history of the fixed seeds: " << word);
    CHECK(coverage.of(word) > 0);
  }
}

// reclaim_execution leaves the lease of the attempt that it takes over from.
TEST_CASE("the end of a suspension announces no lease that an older attempt left behind") {
  const Trial trial = replay(
      {}, from_script(R"({"do":"create_execution","as":"e1","partition":0,"runnable":"pending_first_attempt"}
{"do":"claim","execution":"e1","as":"h1","ttl_ms":450000}
{"do":"age","ms":600000}
{"do":"issue_reclaim_grant","execution":"e1","worker":"w","grant_ttl_ms":450000}
{"do":"reclaim_execution","execution":"e1","as":"h2","worker":"w","ttl_ms":450000}
{"do":"suspend","handle":"h2","names":["w1"],"key":"wait","timeout_in_ms":150000,"timeout_behavior":"fail"}
{"do":"age","ms":300000}
{"do":"tick","reconciler":"suspension_timeout"})"));
  INFO(report(trial));
  CHECK(trial.coverage.of("suspension_timeout: failed") == 1);
  CHECK(trial.verdicts.empty());
}

// Not a test: no fault of the scanners is ours.
TEST_CASE("FlowFabric's own scanners in the daemon's place are counted", "[.][compare]") {
  const Seeds seeds = seeds_or(kSeeds);
  std::map<Fault, int> ours;
  std::map<Fault, int> theirs;
  std::size_t executions = 0;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    const Trial daemon = invent({.seed = seed}, generator_of(seed, false));
    const Trial scanners = replay({.rescue = Rescue::scanners, .seed = seed}, daemon.history);
    executions += daemon.executions;
    for (const auto& [fault, count] : tally(daemon.verdicts)) ours[fault] += count;
    for (const auto& [fault, count] : tally(scanners.verdicts)) theirs[fault] += count;
  }
  std::cout << executions << " executions\n";
  for (const auto& [fault, count] : theirs)
    std::cout << name(fault) << ": daemon " << ours[fault] << ", FlowFabric's scanners " << count << '\n';
}
