// What a suspension waits for, by the condition that FlowFabric wrote and the signals that have come, and its waitpoints.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "explain/states.hpp"
#include "explain/words.hpp"

namespace ff::explain {
namespace {

using nlohmann::json;

// A suspension and its waitpoints are written from one reading of the clock. One that a worker has only announced is
// pending; a signal on it is kept, and resumes nothing.
bool is_bound(const Waitpoint& waitpoint, const Suspension& suspension) {
  const bool of_a_former = waitpoint.activated_at && *waitpoint.activated_at != suspension.suspended_at;
  return waitpoint.state == "active" && !of_a_former;
}

const json& member(const json& object, const char* name) {
  static const json kNone;
  const auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

// Null matches all, as FlowFabric's Wildcard does.
bool matches(const json& matcher, const json& signal) {
  const json& name = member(matcher, "ByName");
  return name.is_null() ? matcher.is_null() || matcher == "Wildcard" : name == member(signal, "signal_name");
}

/// A condition, or a part of one.
struct Awaited {
  std::string text = {};
  bool has_come = false;
  bool by_no_signal = false;  ///< whatever comes, only an operator or the time-out ends the suspension
};

/// Tells a ResumeCondition of FlowFabric's as its `evaluate` would decide it.
class Teller {
 public:
  explicit Teller(const Facts& facts) : signals_(json::parse(facts.suspension->signals, nullptr, false)) {
    for (const Waitpoint& waitpoint : facts.waitpoints)
      if (is_bound(waitpoint, *facts.suspension)) open_.emplace(waitpoint.key, waitpoint.id);
  }

  // Empty: it is of no kind that is known.
  Awaited of(const json& condition) const {
    if (condition == "OperatorOnly") return {"an operator's resume", false, true};
    if (condition == "TimeoutOnly") return {"its time-out", false, true};
    if (const json& single = member(condition, "Single"); single.is_object())
      return at(member(single, "waitpoint_key"), member(single, "matcher"));
    const json& body = member(condition, "Composite");
    if (member(body, "kind") == "AllOf") return all_of(member(body, "members"));
    if (member(body, "kind") == "Count") return count_of(body);
    return {};
  }

 private:
  Awaited at(const json& key, const json& matcher) const {
    const json& name = member(matcher, "ByName");
    const auto open = open_.find(text_of(key));
    return {fmt::format("{} at waitpoint {}", name.is_null() ? "any signal" : text_of(name),
                        open == open_.end() ? '"' + text_of(key) + "\" (not open)" : open->second),
            std::ranges::any_of(member(signals_, text_of(key).c_str()),
                                [&](const json& signal) { return matches(matcher, signal); })};
  }

  static std::string come(std::size_t count) {
    return count == 0 ? "" : fmt::format(" ({} {} come)", count, count == 1 ? "has" : "have");
  }

  // What has come already is no news to wait for.
  static std::string left_of(const std::vector<Awaited>& parts) {
    std::string text;
    for (const Awaited& part : parts)
      if (!part.has_come) text += (text.empty() ? "" : ", ") + part.text;
    return text;
  }

  static std::size_t come_of(const std::vector<Awaited>& parts) {
    return static_cast<std::size_t>(std::ranges::count_if(parts, &Awaited::has_come));
  }

  Awaited all_of(const json& members) const {
    std::vector<Awaited> parts;
    for (const json& each : members) {
      parts.push_back(of(each));
      if (parts.back().text.empty()) return {};
      if (each.contains("Composite")) parts.back().text = "[" + parts.back().text + "]";
    }
    return {fmt::format("all of {}{}: {}", parts.size(), come(come_of(parts)), left_of(parts)),
            !parts.empty() && come_of(parts) == parts.size(),
            std::ranges::any_of(parts, &Awaited::by_no_signal)};
  }

  // Of distinct waitpoints each counts once; of the other kinds another signal may come where one has come.
  Awaited count_of(const json& body) const {
    const json& kind = member(body, "count_kind");
    std::vector<Awaited> parts;
    std::set<std::string> distinct;
    for (const json& key : member(body, "waitpoints")) {
      parts.push_back(at(key, member(body, "matcher")));
      for (const json& signal : member(signals_, text_of(key).c_str()))
        if (matches(member(body, "matcher"), signal))
          distinct.insert(
              kind == "DistinctSignals"
                  ? text_of(member(signal, "signal_id"))
                  : json::array({member(signal, "source_type"), member(signal, "source_identity")}).dump());
    }
    const json& n = member(body, "n");
    if (!n.is_number_unsigned()) return {};
    const bool by_waitpoint = kind == "DistinctWaitpoints";
    const std::size_t count = by_waitpoint ? come_of(parts) : distinct.size();
    if (!by_waitpoint)
      for (Awaited& part : parts) part.has_come = false;
    const std::string what = by_waitpoint                ? fmt::format(" of {}", parts.size())
                             : kind == "DistinctSignals" ? " signals"
                                                         : " sources";
    return {fmt::format("{}{}{}: {}", n.get<std::uint64_t>(), what, come(count), left_of(parts)),
            count >= n.get<std::uint64_t>()};
  }

  json signals_;
  std::map<std::string, std::string> open_;  // the ids by their keys
};

// Where the condition cannot be read, what its waitpoints say.
Awaited by_waitpoints(const Facts& facts) {
  Awaited awaited;
  for (const Waitpoint& waitpoint : facts.waitpoints)
    if (is_bound(waitpoint, *facts.suspension))
      awaited.text += fmt::format("{}{} at waitpoint {}", awaited.text.empty() ? "" : ", ",
                                  waitpoint.signals.empty() ? "any signal" : waitpoint.signals, waitpoint.id);
  return awaited;
}

Awaited awaited(const Facts& facts) {
  const json condition = json::parse(facts.suspension->condition, nullptr, false);
  if (Awaited its = Teller(facts).of(condition); !its.text.empty()) return its;
  return by_waitpoints(facts);
}

bool is_any_open(const Facts& facts) {
  return std::ranges::any_of(facts.waitpoints,
                             [&](const auto& each) { return is_bound(each, *facts.suspension); });
}

// A signal counts by the key of its waitpoint alone.
bool counts_for_the_present_one(const Facts& facts) {
  if (!facts.suspension || !facts.core->is("suspended")) return false;
  return std::ranges::any_of(facts.waitpoints, [&](const Waitpoint& stray) {
    return stray.state == "active" && !is_bound(stray, *facts.suspension) &&
           std::ranges::any_of(facts.waitpoints, [&](const Waitpoint& each) {
             return each.key == stray.key && is_bound(each, *facts.suspension);
           });
  });
}

}  // namespace

void add_suspended(const Facts& facts, std::vector<Finding>& found) {
  if (!facts.suspension) {
    found.push_back({"suspended_without_suspension", "it is suspended, but its suspension is not there",
                     update_core(facts.id,
                                 "lifecycle_phase = 'runnable', ownership_state = 'unowned', "
                                 "eligibility_state = 'eligible_now', public_state = 'resumable'")});
    return;
  }
  const Suspension& suspension = *facts.suspension;
  const Awaited its = awaited(facts);
  const bool by_signal = !its.by_no_signal && is_any_open(facts);
  const std::string waits = its.by_no_signal
                                ? fmt::format("it waits for {}: no signal can resume it", its.text)
                            : by_signal ? "it waits for " + its.text
                                        : "no waitpoint of its is open, so no signal can reach it";
  const std::string operators = "an operator's resume or cancel in FlowFabric";
  const Inspection* inspection = facts.inspection("suspension_timeout");
  if (!suspension.timeout_at)
    found.push_back({by_signal          ? "waits_for_signal"
                     : its.by_no_signal ? "waits_for_operator"
                                        : "suspended_for_ever",
                     waits + "; there is no time-out",
                     by_signal ? "deliver the signal, or resume or cancel it in FlowFabric" : operators});
  else if (inspection != nullptr && inspection->due())
    found.push_back({"suspension_over",
                     fmt::format("its suspension's time-out ({}) was {}", suspension.behavior,
                                 when(*suspension.timeout_at, facts.now)),
                     tick("suspension_timeout", facts.id)});
  else
    found.push_back(
        {"suspended_until",
         fmt::format("{}; its time-out ({}) is {}", waits, suspension.behavior,
                     when(*suspension.timeout_at, facts.now)),
         (by_signal ? "deliver the signal" : operators) + ", or wait: suspension_timeout acts then"});
}

void add_waitpoints(const Facts& facts, std::vector<Finding>& found) {
  if (const Inspection* stray = facts.inspection("stray_waitpoint"); stray != nullptr && stray->due())
    found.push_back({"waitpoint_astray",
                     fmt::format("an active waitpoint of a former suspension is open: a signal on it {}",
                                 counts_for_the_present_one(facts)
                                     ? "counts for the present one, which has the same key"
                                     : "would count for the next suspension of the same key"),
                     tick("stray_waitpoint", facts.id)});
  const Inspection* inspection = facts.inspection("pending_waitpoint_expiry");
  if (inspection == nullptr || inspection->rows.empty()) return;
  if (inspection->due())
    found.push_back(
        {"waitpoint_expired",
         "a waitpoint that no suspension used expired " + when(*inspection->takeable_at(), facts.now),
         tick("pending_waitpoint_expiry", facts.id)});
  else
    found.push_back(
        {"waitpoint_pending",
         "a waitpoint that no suspension uses yet expires " + when(*inspection->takeable_at(), facts.now),
         "wait: pending_waitpoint_expiry closes it then"});
}

}  // namespace ff::explain
