// Suspensions that have lapsed, and waitpoints.
#include "beside/lines.hpp"

namespace ff::test {
namespace {

// Its waitpoint.
Json suspended(World& world, const std::string& execution, const Json& more) {
  world.take("claim", execution);
  Json arguments{{"handle", "h"}, {"key", "k"}};
  arguments.update(more);
  return world.real.call("suspend", arguments).at("waitpoints").at(0);
}

void signal(World& world, const std::string& execution, const Json& waitpoint) {
  world.real.refusal(
      "deliver_signal",
      {{"execution", execution}, {"waitpoint", waitpoint.at("waitpoint")}, {"token", waitpoint.at("token")}});
}

std::string phase_of(World& world, const std::string& execution) {
  return world.core(execution).at("lifecycle_phase");
}

std::string resumed_in_time(Side& side) {
  const std::string execution = side.world.execution();
  const Json waitpoint = suspended(side.world, execution, {{"timeout_in_ms", 300}});
  signal(side.world, execution, waitpoint);
  side.world.pass(300);
  side.scan("suspension_timeout");
  return phase_of(side.world, execution);
}

std::string resumed_by_time_out(Side& side) {
  const std::string execution = side.world.execution();
  suspended(side.world, execution,
            {{"timeout_in_ms", 1}, {"timeout_behavior", "auto_resume_with_timeout_signal"}});
  side.scan("suspension_timeout");
  return phase_of(side.world, execution);
}

std::string late_signal(Side& side) {
  const std::string execution = side.world.execution();
  const Json waitpoint = suspended(side.world, execution, {{"timeout_in_ms", 3'600'000}});
  side.world.real.call("cancel_execution", {{"execution", execution}});
  side.scan("suspension_timeout");
  signal(side.world, execution, waitpoint);
  return phase_of(side.world, execution);
}

// A waitpoint that nobody used has expired; a later suspension uses its key.
std::string mark_of_a_waitpoint(Side& side) {
  World& world = side.world;
  const std::string execution = world.execution();
  world.take("claim", execution);
  const Json unused =
      world.real.call("create_waitpoint", {{"handle", "h"}, {"key", "k"}, {"expires_in_ms", 1}});
  world.real.call("suspend", {{"handle", "h"}, {"key", "k"}});
  world.pass();
  if (side.ours)
    side.scan("pending_waitpoint_expiry");
  else
    world.real.call(
        "scan",
        {{"name", "close_waitpoint"}, {"execution", execution}, {"waitpoint", unused.at("waitpoint")}});
  return world.suspension(execution).at("member_map").contains("k") ? "marked" : "untouched";
}

// A typed claim leaves the execution one ahead of its attempt.
std::string signal_after_a_typed_claim(Side& side) {
  World& world = side.world;
  const std::string execution = world.execution();
  world.take("claim_execution", execution);
  const Json waitpoint = world.real.call("suspend", {{"handle", "h"}}).at("waitpoints").at(0);
  signal(world, execution, waitpoint);
  side.look_all();
  const std::string refusal =
      world.real.refusal("claim_resumed_execution", {{"execution", execution}, {"as", "next"}});
  return refusal.empty() ? "taken" : "refused";
}

// A signal that comes too late, on the waitpoint of the suspension before.
std::string left_by_a_resume(Side& side) {
  const std::string execution = side.world.execution();
  const Json left = suspended(side.world, execution, Json::object());
  side.world.real.call("resume_execution", {{"execution", execution}});
  side.look_all();
  suspended(side.world, execution, Json::object());
  signal(side.world, execution, left);
  return phase_of(side.world, execution);
}

// A signal on a waitpoint that was written anew, once whoever might has looked after it.
std::string signal_without_a_key(Side& side) {
  World& world = side.world;
  const std::string execution = world.execution();
  world.take("claim", execution);
  const Json made =
      world.real.call("create_waitpoint", {{"handle", "h"}, {"key", "k"}, {"expires_in_ms", 1}});
  world.pass();
  if (side.ours)
    side.scan("pending_waitpoint_expiry");
  else
    world.real.call(
        "scan", {{"name", "close_waitpoint"}, {"execution", execution}, {"waitpoint", made.at("waitpoint")}});
  const Json used = world.real.call(
      "suspend", {{"handle", "h"}, {"waitpoints", {{{"pending", made.at("waitpoint")}, {"key", "k"}}}}});
  side.look_all();
  signal(world, execution, used.at("waitpoints").at(0));
  return phase_of(world, execution);
}

}  // namespace

std::vector<Line> lines_of_suspensions() {
  return {{"a suspension's time-out ends an execution that a signal has resumed", resumed_in_time, "terminal",
           "runnable"},
          {"`auto_resume_with_timeout_signal` writes the signal and resumes nobody", resumed_by_time_out,
           "suspended", "runnable"},
          {"a cancelled execution keeps its suspension and waitpoints", late_signal, "runnable", "cancelled"},
          {"an operator's resume leaves the suspension's waitpoint open", left_by_a_resume, "runnable",
           "suspended"},
          {"a suspension on a waitpoint that has expired, or that a signal has just deleted, loses its key",
           signal_without_a_key, "suspended", "runnable"},
          {"a waitpoint that expires is marked in the suspension's `member_map`", mark_of_a_waitpoint,
           "marked", "untouched"},
          {"a suspension, a delay or a wait for children after a typed claim leaves an index without a row",
           signal_after_a_typed_claim, "refused", "taken"}};
}

}  // namespace ff::test
