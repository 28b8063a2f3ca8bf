#include "histories/exclusions.hpp"

#include <algorithm>
#include <utility>

namespace ff::test {
namespace {

bool does(const Step& step, const char* what) {
  return step.at("do") == what;
}

bool signals(const Step& step) {
  return does(step, "deliver_signal") || does(step, "deliver_approval_signal");
}

// Completion events beyond those that its end, where it has one, should have by now.
std::int64_t told(const ExecutionRows& rows) {
  return static_cast<std::int64_t>(rows.ends.size()) - (rows.ended() && !rows.to_be_told() ? 1 : 0);
}

bool ends_untold(const ExecutionRows& before, const ExecutionRows& after) {
  return !before.ended() && after.ended() && after.ends.size() == before.ends.size();
}

bool ends_again(const ExecutionRows& before, const ExecutionRows& after) {
  return before.ended() && after.ended() && after.ends.size() > before.ends.size();
}

const std::string kAlone =
    R"({"do":"create_execution","as":"e1","partition":0,"runnable":"pending_first_attempt"}
)";
const std::string kClaimed = kAlone + R"({"do":"claim","execution":"e1","as":"h1","ttl_ms":60000}
)";
// e2 waits for e1, which has ended and was counted.
const std::string kFlow = R"({"do":"create_flow","as":"f1","partition":0}
{"do":"create_execution","as":"e1","flow":"f1","runnable":"pending"}
{"do":"create_execution","as":"e2","flow":"f1"}
)";
const std::string kEnded = R"({"do":"claim","execution":"e1","as":"h1","ttl_ms":60000}
{"do":"complete","handle":"h1"}
{"do":"scan","name":"dispatch_completion"}
)";
const std::string kEdge = R"({"do":"stage_edge","flow":"f1","upstream":"e1","downstream":"e2","apply":true}
)";

// --- Ends that are not told, or told twice -----------------------------------------------------------------------

std::vector<Exclusion> of_ends() {
  return {
      {.name = "an operator's cancel tells nobody",
       .call = "cancel_execution",
       .source = "src/operator.rs:213",
       .harm = "no completion event: where nobody waits for it, nobody ever hears of it",
       .is =
           [](const Step& step, const ExecutionRows& before, const ExecutionRows& after) {
             return does(step, "cancel_execution") && ends_untold(before, after);
           },
       .tells_nobody = true,
       .shown = Fault::untold,
       .shortest = kAlone + R"({"do":"cancel_execution","execution":"e1"})"},
      {.name = "a worker's cancel tells nobody",
       .call = "cancel",
       .source = "src/exec_core.rs:591",
       .harm = "no completion event: where nobody waits for it, nobody ever hears of it",
       .is = [](const Step& step, const ExecutionRows& before,
                const ExecutionRows& after) { return does(step, "cancel") && ends_untold(before, after); },
       .tells_nobody = true,
       .shown = Fault::untold,
       .shortest = kClaimed + R"({"do":"cancel","handle":"h1"})"},
      {.name = "a member of a cancelled flow that is acknowledged tells nobody",
       .call = "cancel_flow_header, ack_cancel_member",
       .source = "src/operator.rs:1182",
       .harm = "it is cancelled without a completion event, and it stays so where nobody waits for one",
       .is =
           [](const Step& step, const ExecutionRows& before, const ExecutionRows& after) {
             return does(step, "ack_cancel_member") && before.to_be_told() && !after.to_be_told();
           },
       .tells_nobody = true,
       .shown = Fault::untold,
       .shortest = kFlow + R"({"do":"cancel_flow_header","flow":"f1","policy":"cancel_all"}
{"do":"ack_cancel_member","flow":"f1","execution":"e1"}
{"do":"ack_cancel_member","flow":"f1","execution":"e2"})"},
      {.name = "the cancel of a flow ends ended members again",
       .call = "cancel_flow",
       .source = "src/flow.rs:711",
       .harm = "a second completion event, which counts a second time downstream",
       .is =
           [](const Step& step, const ExecutionRows& before, const ExecutionRows& after) {
             return does(step, "cancel_flow") && ends_again(before, after);
           },
       .misleads_groups = true,
       .shown = Fault::ended_twice,
       .shortest = kFlow + kEnded + R"({"do":"cancel_flow","flow":"f1","policy":"cancel_all"})"},
      {.name = "a worker ends what has ended",
       .call = "complete, fail",
       .source = "src/attempt.rs:546",
       .harm = "only the epoch is asked for, and neither an end nor reclaim_execution raises it",
       .is =
           [](const Step& step, const ExecutionRows& before, const ExecutionRows& after) {
             return (does(step, "complete") || does(step, "fail")) && ends_again(before, after);
           },
       .misleads_groups = true,
       .shown = Fault::ended_twice,
       .shortest = kClaimed + R"({"do":"complete","handle":"h1"}
{"do":"complete","handle":"h1"})"}};
}

// --- Groups that are told otherwise ------------------------------------------------------------------------------

bool has_children(const ExecutionRows& rows) {
  if (!rows.group.is_object()) return false;
  const auto counts = {"success_count", "fail_count", "skip_count", "running_count"};
  return std::ranges::any_of(counts, [&](const char* count) { return rows.group.at(count) != 0; });
}

std::vector<Exclusion> of_groups() {
  return {{.name = "a replayed member counts as ended, and then a second time",
           .call = "replay_execution",
           .source = "src/operator.rs:797",
           .harm = "no group is told that its upstream runs again",
           .is = [](const Step& step, const ExecutionRows&,
                    const ExecutionRows&) { return does(step, "replay_execution"); },
           .misleads_groups = true,
           .shown = Fault::miscounted,
           .shortest = kFlow + kEdge + kEnded + R"({"do":"replay_execution","execution":"e1"})"},
          {.name = "who waits for children and has none waits for ever",
           .call = "wait_children",
           .source = "src/attempt.rs:857",
           .harm = "no group exists that could wake it, or one that counts nobody",
           .is = [](const Step& step, const ExecutionRows& before,
                    const ExecutionRows&) { return does(step, "wait_children") && !has_children(before); },
           .explains =
               [](const Verdict& verdict, const ExecutionRows& now, const ExecutionRows&) {
                 return verdict.fault == Fault::stuck && !has_children(now) &&
                        now.text("eligibility_state") == "blocked_by_dependencies";
               },
           .shown = Fault::stuck,
           .shortest = kClaimed + R"({"do":"wait_children","handle":"h1"})"}};
}

// --- Claims that are refused -------------------------------------------------------------------------------------

std::vector<Exclusion> of_claims() {
  return {{.name = "a signal makes runnable what has ended",
           .call = "deliver_signal",
           .source = "src/suspend_ops.rs:908",
           .harm = "an ended execution becomes runnable, with the words of its end about it",
           .is = [](const Step& step, const ExecutionRows& before,
                    const ExecutionRows& after) { return signals(step) && before.ended() && !after.ended(); },
           .misleads_groups = true,
           .explains =
               [](const Verdict& verdict, const ExecutionRows& now, const ExecutionRows& before) {
                 return verdict.fault == Fault::refused &&
                        now.text("attempt_state") == before.text("attempt_state");
               },
           .shown = Fault::refused,
           .shortest = kClaimed + R"({"do":"suspend","handle":"h1","names":["w1"],"key":"wait"}
{"do":"cancel_execution","execution":"e1"}
{"do":"deliver_signal","execution":"e1","waitpoint":"w1","signal":"go"})"}};
}

// --- Budgets -----------------------------------------------------------------------------------------------------

std::vector<Exclusion> of_budgets() {
  return {{.name = "a budget's reset leaves the ledger by execution",
           .call = "reset_budget",
           .source = "src/budget.rs:633",
           .harm = "what was spent before the reset is given back after it",
           .is = [](const Step& step, const ExecutionRows&,
                    const ExecutionRows&) { return does(step, "reset_budget"); },
           .explains = [](const Verdict& verdict, const ExecutionRows&,
                          const ExecutionRows&) { return verdict.fault == Fault::miscounted; },
           .shown = Fault::miscounted,
           .shortest = kAlone + R"({"do":"create_budget","as":"b1","partition":0,"hard":{"tokens":100}}
{"do":"record_spend","budget":"b1","execution":"e1","deltas":{"tokens":5}}
{"do":"reset_budget","budget":"b1"})"}};
}

}  // namespace

const std::vector<Exclusion>& exclusions() {
  static const std::vector<Exclusion> all = [] {
    std::vector<Exclusion> found;
    for (auto* some : {of_ends, of_groups, of_claims, of_budgets})
      for (Exclusion& exclusion : some()) found.push_back(std::move(exclusion));
    return found;
  }();
  return all;
}

void Excluded::note(const std::string& who, const Step& step, const ExecutionRows& before,
                    const ExecutionRows& after) {
  std::int64_t ends_told = told(after) - told(before);
  for (const Exclusion& exclusion : exclusions()) {
    if (!exclusion.is(step, before, after)) continue;
    calls_[who].push_back({&exclusion, before, std::exchange(ends_told, 0)});
  }
}

const Exclusion* Excluded::explains(const Verdict& verdict, const ExecutionRows& now) const {
  const auto found = calls_.find(verdict.who);
  if (found == calls_.end()) return nullptr;
  for (const Call& call : found->second)
    if (call.exclusion->explains != nullptr && call.exclusion->explains(verdict, now, call.before))
      return call.exclusion;
  return nullptr;
}

std::int64_t Excluded::ends_told(const std::string& execution) const {
  std::int64_t sum = 0;
  if (const auto found = calls_.find(execution); found != calls_.end())
    for (const Call& call : found->second) sum += call.ends_told;
  const auto repaired = repaired_.find(execution);
  return repaired == repaired_.end() ? sum : sum + repaired->second;
}

const Exclusion* Excluded::first(const std::string& execution, bool Exclusion::*flag) const {
  const auto found = calls_.find(execution);
  if (found == calls_.end()) return nullptr;
  for (const Call& call : found->second)
    if (call.exclusion->*flag) return call.exclusion;
  return nullptr;
}

const Exclusion* Excluded::misleads_groups(const std::string& execution) const {
  return first(execution, &Exclusion::misleads_groups);
}

const Exclusion* Excluded::tells_nobody(const std::string& execution) const {
  return first(execution, &Exclusion::tells_nobody);
}

}  // namespace ff::test
