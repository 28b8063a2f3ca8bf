#include <fmt/format.h>

#include "base/printable.hpp"
#include "explain/finding.hpp"
#include "explain/verdict.hpp"
#include "explain/words.hpp"
#include "explain_print.hpp"

namespace ff::daemon {
namespace {

using explain::Facts;
using explain::when;

// Lines of two columns; the name stands on the first of its lines only.
class Page {
 public:
  void line(std::string_view name, const std::string& text) {
    text_ += fmt::format("{:<12}{}\n", name == last_ ? "" : name, printable(text));
    last_ = name;
  }
  void row(std::string_view left, const std::string& text) {
    text_ += fmt::format("  {:<30}{}\n", left, printable(text));
  }
  void heading(std::string_view text) { text_ += fmt::format("\n{}\n", text); }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  std::string_view last_;
};

std::string end(UnixMillis at, UnixMillis now) {
  return (at > now ? "ends " : "ended ") + when(at, now);
}

std::string more(std::int64_t in_all, std::size_t shown) {
  const auto rest = in_all - static_cast<std::int64_t>(shown);
  return rest > 0 ? fmt::format(" and {} more", rest) : "";
}

void add_core(Page& page, const Facts& facts) {
  const explain::Core& core = *facts.core;
  page.line("state", fmt::format("{} (lifecycle_phase {}, ownership {}, eligibility {}, attempt {})",
                                 core.public_state, core.lifecycle_phase, core.ownership_state,
                                 core.eligibility_state, core.attempt_state));
  page.line("made", fmt::format("{}, namespace {}, lane {}{}", when(core.created_at, facts.now),
                                core.name_space.value_or("none"), core.lane,
                                core.capabilities.empty() ? "" : ", capabilities " + core.capabilities));
  if (core.flow) page.line("flow", to_string(*core.flow));
  if (core.deadline_at)
    page.line(core.deadline_is_delay() ? "delay" : "deadline", when(*core.deadline_at, facts.now));
  if (core.blocking_reason) page.line("reason", *core.blocking_reason);
  if (core.last_failure) page.line("failure", *core.last_failure);
}

void add_attempts(Page& page, const Facts& facts) {
  const explain::Attempt* current = facts.current_attempt();
  for (const explain::Attempt& attempt : facts.attempts) {
    std::string text =
        fmt::format("{}{} by {}, epoch {}", attempt.index, &attempt == current ? " (current)" : "",
                    attempt.worker.value_or("nobody"), attempt.epoch);
    text += attempt.lease_expires_at ? ", lease " + end(*attempt.lease_expires_at, facts.now)
                                     : std::string(", no lease");
    if (attempt.outcome) text += ", " + *attempt.outcome;
    if (attempt.reclaims > 0)
      text +=
          attempt.reclaims == 1 ? ", reclaimed once" : fmt::format(", reclaimed {} times", attempt.reclaims);
    page.line("attempt", text);
  }
  for (const explain::Grant& grant : facts.grants)
    page.line("grant",
              fmt::format("{} for {}, {}", grant.kind, grant.worker, explain::end_of(grant, facts.now)));
}

// FlowFabric has a name that no signal has for a condition that none satisfies.
std::string wanted_at(const explain::Waitpoint& waitpoint) {
  if (waitpoint.signals == "__operator_only__") return "an operator's resume";
  return waitpoint.signals == "__timeout_only__" ? "its time-out" : waitpoint.signals;
}

void add_suspension(Page& page, const Facts& facts) {
  if (const auto& suspension = facts.suspension)
    page.line("suspension", fmt::format("begun {}{}, time-out {}", when(suspension->suspended_at, facts.now),
                                        suspension->reason ? " (" + *suspension->reason + ")" : "",
                                        suspension->timeout_at ? when(*suspension->timeout_at, facts.now) +
                                                                     " (" + suspension->behavior + ")"
                                                               : "none"));
  for (const explain::Waitpoint& waitpoint : facts.waitpoints)
    page.line("waitpoint", fmt::format("{} {} \"{}\"{}", waitpoint.id, waitpoint.state, waitpoint.key,
                                       waitpoint.signals.empty() ? "" : " for " + wanted_at(waitpoint)));
  if (const auto rest = more(facts.waitpoints_in_all, facts.waitpoints.size()); !rest.empty())
    page.line("waitpoint", rest);
}

void add_flow(Page& page, const Facts& facts) {
  if (facts.fan_in) page.line("fan-in", explain::counts(*facts.fan_in));
  for (const explain::Upstream& upstream : facts.upstreams)
    page.line("upstream", fmt::format("{} {}{}{}", to_string(upstream.id), upstream.state(),
                                      upstream.staged ? ", edge only staged" : "",
                                      upstream.undispatched_since ? ", its end not passed on yet" : ""));
  if (const auto rest = more(facts.upstreams_in_all, facts.upstreams.size()); !rest.empty())
    page.line("upstream", rest);
  for (const explain::Downstream& downstream : facts.downstreams)
    page.line("downstream", fmt::format("{} {}", to_string(downstream.id), downstream.state()));
  if (const auto rest = more(facts.downstreams_in_all, facts.downstreams.size()); !rest.empty())
    page.line("downstream", rest);
}

void add_events(Page& page, const Facts& facts) {
  for (const explain::CompletionEvent& event : facts.completions)
    page.line("end", fmt::format("{} {}, {}", event.outcome, when(event.committed_at, facts.now),
                                 event.dispatched_at ? "passed on " + when(*event.dispatched_at, facts.now)
                                                     : std::string("not passed on yet")));
  for (const explain::LeaseEvent& event : facts.lease_events)
    page.line("lease", event.type + " " + when(event.at, facts.now));
}

}  // namespace

std::string explain_text(const Facts& facts, const Pasted& pasted) {
  Page page;
  page.line("execution", to_string(facts.id));
  if (facts.core) add_core(page, facts);
  add_attempts(page, facts);
  add_suspension(page, facts);
  add_flow(page, facts);
  add_events(page, facts);
  page.heading("why it is where it is, and what next");
  for (const explain::Finding& finding : findings(facts)) {
    page.row(finding.cause, finding.text);
    page.row("", "-> " + pasted(finding.next));
  }
  page.heading("reconcilers");
  for (const explain::Verdict& verdict : verdicts(facts)) page.row(verdict.reconciler, verdict.text);
  return page.take();
}

}  // namespace ff::daemon
