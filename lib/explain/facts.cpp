#include "explain/facts.hpp"

#include <algorithm>
#include <array>

namespace ff::explain {

namespace {

// As the phrase is_retry_or_resume has it.
bool delayed_for(const Core& core, std::string_view reason) {
  return core.delayed() && core.public_state == "delayed" && core.blocking_reason == reason &&
         (core.attempt_state == "pending_retry_attempt" || !core.deadline_at ||
          core.newest_outcome != "interrupted");
}

}  // namespace

bool Core::backs_off() const {
  return delayed_for(*this, "waiting_for_retry_backoff");
}

bool Core::resumes_later() const {
  return delayed_for(*this, "waiting_for_resume_delay");
}

bool Core::deadline_is_delay() const {
  return delayed() && !backs_off() && !resumes_later();
}

std::string state(std::string_view lifecycle_phase, std::string_view public_state,
                  std::string_view attempt_state, const std::optional<std::string>& outcome) {
  constexpr std::array kEnds{"completed", "failed", "cancelled", "expired", "skipped"};
  const bool ended = lifecycle_phase == "terminal" || lifecycle_phase == "cancelled";
  const bool told = lifecycle_phase == "terminal" && attempt_state == "attempt_terminal" && outcome;
  if (!ended || (!told && std::find(kEnds.begin(), kEnds.end(), public_state) != kEnds.end()))
    return std::string(public_state);
  if (!outcome) return std::string(lifecycle_phase);
  return *outcome == "success" ? "completed" : *outcome;
}

std::string Upstream::state() const {
  return explain::state(lifecycle_phase, public_state, attempt_state, outcome);
}

std::string Downstream::state() const {
  return explain::state(lifecycle_phase, public_state, {}, std::nullopt);
}

bool Facts::deadline_is_of_former_run() const {
  const Inspection* inspection = this->inspection("execution_deadline");
  const bool with_waiting =
      inspection != nullptr && inspection->settings.at("include_waiting").value_or(0) != 0;
  return core->is_replayed && (core->is("active") || with_waiting);
}

const CompletionEvent* Facts::told_end() const {
  const auto end = std::ranges::find_if(
      completions, [](const CompletionEvent& event) { return event.outcome != "resumable"; });
  return end == completions.end() ? nullptr : &*end;
}

const CompletionEvent* Facts::told_too_early() const {
  const bool lives = core && !core->ended() && !core->terminal_at && !core->is_replayed;
  return lives ? told_end() : nullptr;
}

std::string Facts::state() const {
  const CompletionEvent* end = told_end();
  return explain::state(core->lifecycle_phase, core->public_state, core->attempt_state,
                        end == nullptr ? std::nullopt : std::optional(end->outcome));
}

bool FanIn::satisfied() const {
  if (kind == "any_of") return success >= 1;
  if (kind == "quorum") return counted() > 0 && success >= k;
  const std::int64_t all = counted() + running;
  return success == all && all > 0;
}

bool FanIn::impossible() const {
  const std::int64_t all = counted() + running;
  if (kind == "any_of") return fail + skip >= all && all > 0;
  if (kind == "quorum") return running == 0 && all > 0 && success < k;
  return fail + skip > 0;
}

bool Facts::fan_in_agrees() const {
  if (fan_in->counted() > ended_upstreams) return false;
  if (untold_upstreams > 0) return true;
  const std::int64_t failed = ended_upstreams - succeeded_upstreams - skipped_upstreams;
  return fan_in->success == succeeded_upstreams && fan_in->fail == failed &&
         fan_in->skip == skipped_upstreams;
}

bool Inspection::due() const {
  return std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.due; });
}

bool Inspection::moves() const {
  return due() && !(trial && trial->left_alone);
}

std::optional<UnixMillis> Inspection::takeable_at() const {
  const auto first = std::min_element(
      rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.takeable_at < b.takeable_at; });
  return first == rows.end() ? std::nullopt : std::optional(first->takeable_at);
}

const Attempt* Facts::current_attempt() const {
  const bool by_lease = core && core->is("active");
  const auto before = [&](const Attempt& a, const Attempt& b) {
    const bool a_leased = by_lease && a.lease_expires_at;
    const bool b_leased = by_lease && b.lease_expires_at;
    return a_leased == b_leased ? a.index < b.index : b_leased;
  };
  const auto found = std::max_element(attempts.begin(), attempts.end(), before);
  return found == attempts.end() ? nullptr : &*found;
}

const Upstream* Facts::undispatched() const {
  const auto found = std::ranges::find_if(
      upstreams, [](const Upstream& upstream) { return upstream.undispatched_since.has_value(); });
  return found == upstreams.end() ? nullptr : &*found;
}

const Grant* Facts::grant(std::string_view kind) const {
  const auto found = std::find_if(grants.begin(), grants.end(),
                                  [&](const Grant& grant) { return grant.kind == kind && grant.lives(now); });
  return found == grants.end() ? nullptr : &*found;
}

const Inspection* Facts::inspection(std::string_view reconciler) const {
  const auto found = std::find_if(inspections.begin(), inspections.end(), [&](const Inspection& inspection) {
    return inspection.reconciler == reconciler;
  });
  return found == inspections.end() ? nullptr : &*found;
}

}  // namespace ff::explain
