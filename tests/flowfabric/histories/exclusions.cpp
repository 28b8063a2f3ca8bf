#include "histories/exclusions.hpp"

#include <algorithm>

namespace ff::test {
namespace {

bool does(const Step& step, const char* what) {
  return step.at("do") == what;
}

// A typed claim leaves the core at the index after its attempt's, where there is no row.
bool ahead_of_its_attempt(const ExecutionRows& rows) {
  return rows.core.is_object() && !rows.attempts.empty() &&
         !rows.attempts.contains(rows.core.at("attempt_index").get<int>());
}

bool interrupted_and_ahead(const ExecutionRows& rows) {
  return rows.text("attempt_state") == "attempt_interrupted" && ahead_of_its_attempt(rows);
}

}  // namespace

const std::vector<Exclusion>& exclusions() {
  static const std::vector<Exclusion> all{
      {.name = "an operator's cancel tells nobody",
       .call = "cancel_execution",
       .source = "src/operator.rs:213",
       .harm = "no completion event: who depends on it never hears of it",
       .is = [](const Step& step, const ExecutionRows&) { return does(step, "cancel_execution"); },
       .of_the_execution = {},
       .of_its_dependents = {Fault::stuck, Fault::miscounted},
       .shown = Fault::miscounted,
       .shortest = R"({"do":"create_flow","as":"f1","partition":0}
{"do":"create_execution","as":"e1","flow":"f1","runnable":"pending"}
{"do":"create_execution","as":"e2","flow":"f1"}
{"do":"stage_edge","flow":"f1","upstream":"e1","downstream":"e2","apply":true}
{"do":"cancel_execution","execution":"e1"}
{"do":"scan","name":"dispatch_completion"})"},
      {.name = "a worker's cancel tells nobody and keeps its lease",
       .call = "cancel",
       .source = "src/exec_core.rs:591",
       .harm = "no completion event, and a lease that lapses on an ended execution",
       .is = [](const Step& step, const ExecutionRows&) { return does(step, "cancel"); },
       .of_the_execution = {},
       .of_its_dependents = {Fault::stuck, Fault::miscounted},
       .shown = Fault::miscounted,
       .shortest = R"({"do":"create_flow","as":"f1","partition":0}
{"do":"create_execution","as":"e1","flow":"f1","runnable":"pending"}
{"do":"create_execution","as":"e2","flow":"f1"}
{"do":"stage_edge","flow":"f1","upstream":"e1","downstream":"e2","apply":true}
{"do":"claim","execution":"e1","as":"h1","ttl_ms":60000}
{"do":"cancel","handle":"h1"}
{"do":"scan","name":"dispatch_completion"})"},
      {.name = "the cancel of a flow's header tells nobody",
       .call = "cancel_flow_header",
       .source = "src/operator.rs:1099",
       .harm = "members are cancelled without a completion event",
       .is = [](const Step& step, const ExecutionRows&) { return does(step, "cancel_flow_header"); },
       .of_the_execution = {Fault::miscounted},
       .of_its_dependents = {Fault::stuck, Fault::miscounted},
       .shown = Fault::miscounted,
       .shortest = R"({"do":"create_flow","as":"f1","partition":0}
{"do":"create_execution","as":"e1","flow":"f1","runnable":"pending"}
{"do":"create_execution","as":"e2","flow":"f1"}
{"do":"stage_edge","flow":"f1","upstream":"e1","downstream":"e2","apply":true}
{"do":"cancel_flow_header","flow":"f1","policy":"cancel_all"}
{"do":"scan","name":"dispatch_completion"})"},
      {.name = "the cancel of a flow ends ended members again",
       .call = "cancel_flow",
       .source = "src/flow.rs:711",
       .harm = "a second completion event, which counts a second time downstream",
       .is = [](const Step& step, const ExecutionRows&) { return does(step, "cancel_flow"); },
       .of_the_execution = {Fault::miscounted},
       .of_its_dependents = {Fault::stuck, Fault::miscounted},
       .shown = Fault::miscounted,
       .shortest = R"({"do":"create_flow","as":"f1","partition":0}
{"do":"create_execution","as":"e1","flow":"f1","runnable":"pending"}
{"do":"create_execution","as":"e2","flow":"f1"}
{"do":"stage_edge","flow":"f1","upstream":"e1","downstream":"e2","apply":true}
{"do":"claim","execution":"e1","as":"h1","ttl_ms":60000}
{"do":"complete","handle":"h1"}
{"do":"cancel_flow","flow":"f1","policy":"cancel_all"}
{"do":"scan","name":"dispatch_completion"})"},
      {.name = "an edge that is applied after its upstream's end counts it as running for ever",
       .call = "stage_dependency_edge, apply_dependency_to_child",
       .source = "src/flow_staging.rs:536",
       .harm = "the group of the downstream is never decided",
       .is = [](const Step& step,
                const ExecutionRows& before) { return does(step, "stage_edge") && before.ended(); },
       .of_the_execution = {},
       .of_its_dependents = {Fault::stuck, Fault::miscounted},
       .shown = Fault::miscounted,
       .shortest = R"({"do":"create_flow","as":"f1","partition":0}
{"do":"create_execution","as":"e1","flow":"f1","runnable":"pending"}
{"do":"create_execution","as":"e2","flow":"f1"}
{"do":"claim","execution":"e1","as":"h1","ttl_ms":60000}
{"do":"complete","handle":"h1"}
{"do":"scan","name":"dispatch_completion"}
{"do":"stage_edge","flow":"f1","upstream":"e1","downstream":"e2","apply":true})"},
      {.name = "a replayed member ends, and counts, a second time",
       .call = "replay_execution",
       .source = "src/operator.rs:797",
       .harm = "no group is told that its upstream runs again",
       .is = [](const Step& step, const ExecutionRows&) { return does(step, "replay_execution"); },
       .of_the_execution = {Fault::miscounted},
       .of_its_dependents = {Fault::stuck, Fault::miscounted},
       .shown = Fault::miscounted,
       .shortest = R"({"do":"create_flow","as":"f1","partition":0}
{"do":"create_execution","as":"e1","flow":"f1","runnable":"pending"}
{"do":"create_execution","as":"e2","flow":"f1"}
{"do":"stage_edge","flow":"f1","upstream":"e1","downstream":"e2","apply":true}
{"do":"claim","execution":"e1","as":"h1","ttl_ms":60000}
{"do":"complete","handle":"h1"}
{"do":"scan","name":"dispatch_completion"}
{"do":"replay_execution","execution":"e1"})"},
      {.name = "a grant of the scheduler holds an execution for a claimer who may never come",
       .call = "claim_for_worker",
       .source = "src/scheduler.rs:273",
       .harm = "pending_claim: only an operator's claim takes it from there",
       .is = [](const Step& step, const ExecutionRows&) { return does(step, "claim_for_worker"); },
       .of_the_execution = {Fault::stuck},
       .still = [](const ExecutionRows& now) { return now.text("eligibility_state") == "pending_claim"; },
       .shown = Fault::stuck,
       .shortest = R"({"do":"create_execution","as":"e1","partition":0,"runnable":"pending_first_attempt"}
{"do":"claim_for_worker","execution":"e1","worker":"w","grant_ttl_ms":1000})"},
      {.name = "an old grant stands in the way of a new one",
       .call = "claim_execution",
       .source = "src/typed_ops.rs:1351",
       .harm =
           "it reads any one grant of the execution, and refuses when that one is over or another worker's",
       .is = [](const Step& step,
                const ExecutionRows&) { return does(step, "claim_for_worker") || does(step, "write_grant"); },
       .of_the_execution = {Fault::refused},
       .still = [](const ExecutionRows& now) { return !now.grants.empty(); },
       .shown = Fault::refused,
       .shortest = R"({"do":"create_execution","as":"e1","partition":0,"runnable":"pending_first_attempt"}
{"do":"write_grant","execution":"e1","worker":"w","grant_ttl_ms":1000})"},
      {.name = "a signal after a typed claim leaves an index without a row",
       .call = "claim_execution, suspend, deliver_signal",
       .source = "src/suspend_ops.rs:908",
       .harm = "claim_resumed_execution and issue_grant_and_claim are refused for ever",
       .is =
           [](const Step& step, const ExecutionRows& before) {
             return does(step, "deliver_signal") && ahead_of_its_attempt(before);
           },
       .of_the_execution = {Fault::refused},
       .still = interrupted_and_ahead,
       .shown = Fault::refused,
       .shortest = R"({"do":"create_execution","as":"e1","partition":0,"runnable":"pending_first_attempt"}
{"do":"issue_grant_and_claim","execution":"e1","as":"h1","ttl_ms":60000}
{"do":"suspend","handle":"h1","names":["w1"],"key":"wait"}
{"do":"deliver_signal","execution":"e1","waitpoint":"w1","signal":"go"})"},
      {.name = "an operator's resume after a typed claim leaves an index without a row",
       .call = "claim_execution, suspend, resume_execution",
       .source = "src/typed_ops.rs:865",
       .harm = "issue_grant_and_claim is refused for ever",
       .is =
           [](const Step& step, const ExecutionRows& before) {
             return does(step, "resume_execution") && step.value("resume_delay_ms", 0) == 0 &&
                    ahead_of_its_attempt(before);
           },
       .of_the_execution = {Fault::refused},
       .still = interrupted_and_ahead,
       .shown = Fault::refused,
       .shortest = R"({"do":"create_execution","as":"e1","partition":0,"runnable":"pending_first_attempt"}
{"do":"issue_grant_and_claim","execution":"e1","as":"h1","ttl_ms":60000}
{"do":"suspend","handle":"h1","names":["w1"],"key":"wait"}
{"do":"resume_execution","execution":"e1","resume_delay_ms":0})"},
      {.name = "a signal revives what has ended",
       .call = "deliver_signal",
       .source = "src/suspend_ops.rs:908",
       .harm = "an ended execution becomes runnable, with the words of its end about it",
       .is = [](const Step& step,
                const ExecutionRows& before) { return does(step, "deliver_signal") && before.ended(); },
       .of_the_execution = {Fault::stuck, Fault::refused, Fault::miscounted},
       .of_its_dependents = {Fault::stuck, Fault::miscounted},
       .shown = Fault::refused,
       .shortest = R"({"do":"create_execution","as":"e1","partition":0,"runnable":"pending_first_attempt"}
{"do":"claim","execution":"e1","as":"h1","ttl_ms":60000}
{"do":"suspend","handle":"h1","names":["w1"],"key":"wait"}
{"do":"cancel_execution","execution":"e1"}
{"do":"deliver_signal","execution":"e1","waitpoint":"w1","signal":"go"})"},
      {.name = "a reclaim leaves the old epoch",
       .call = "reclaim_execution",
       .source = "src/claim_grant.rs:585",
       .harm = "the worker that was thought dead ends the execution under the one that works on it",
       .is = [](const Step& step, const ExecutionRows&) { return does(step, "reclaim_execution"); },
       .of_the_execution = {Fault::robbed, Fault::ended_twice},
       .shown = Fault::ended_twice,
       .shortest = R"({"do":"create_execution","as":"e1","partition":0,"runnable":"pending_first_attempt"}
{"do":"claim","execution":"e1","as":"h1","ttl_ms":60000}
{"do":"age","ms":300000}
{"do":"issue_reclaim_grant","execution":"e1","worker":"w","grant_ttl_ms":60000}
{"do":"reclaim_execution","execution":"e1","as":"h2","worker":"w","ttl_ms":60000}
{"do":"complete","handle":"h2"}
{"do":"complete","handle":"h1"})"},
      {.name = "who waits for children and has none waits for ever",
       .call = "wait_children",
       .source = "src/attempt.rs:857",
       .harm = "no group exists that could wake it",
       .is =
           [](const Step& step, const ExecutionRows& before) {
             return does(step, "wait_children") && !before.group.is_object();
           },
       .of_the_execution = {Fault::stuck},
       .shown = Fault::stuck,
       .shortest = R"({"do":"create_execution","as":"e1","partition":0,"runnable":"pending_first_attempt"}
{"do":"claim","execution":"e1","as":"h1","ttl_ms":60000}
{"do":"wait_children","handle":"h1"})"}};
  return all;
}

}  // namespace ff::test
