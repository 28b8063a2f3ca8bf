// What a suspension waits for, by the condition that FlowFabric wrote and the signals that have come, and its waitpoints.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "audit/remedy.hpp"
#include "explain/states.hpp"
#include "explain/words.hpp"

namespace ff::explain {
namespace {

using nlohmann::json;

// A suspension and its waitpoints are written from one reading of the clock. What a worker has only announced is pending; what is
// left of a former suspension is not of this one. FlowFabric's `deliver_signal` makes no difference between them: a signal counts by
// the key of its waitpoint.
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
  enum class By {
    signal,
    others,  ///< an operator, or the time-out: that is what it says
    nobody   ///< FlowFabric took it all the same
  };
  std::string text = {};
  bool has_come = false;
  By by = By::signal;
};

// What has come already is no news to wait for.
std::string listed(std::string text, std::size_t come, const std::vector<Awaited>& parts) {
  if (come > 0) text += fmt::format(" ({} {} come)", come, come == 1 ? "has" : "have");
  std::string_view mark = ": ";
  for (const Awaited& part : parts) {
    if (part.has_come) continue;
    text += std::string(mark) + part.text;
    mark = ", ";
  }
  return text;
}

std::size_t come_of(const std::vector<Awaited>& parts) {
  return static_cast<std::size_t>(std::ranges::count_if(parts, &Awaited::has_come));
}

void add_keys(const json& condition, std::set<std::string>& keys) {
  if (const json& key = member(condition, "waitpoint_key"); key.is_string()) keys.insert(text_of(key));
  for (const json& key : member(condition, "waitpoints")) keys.insert(text_of(key));
  if (condition.is_structured())
    for (const json& part : condition) add_keys(part, keys);
}

// FlowFabric suspends on a waitpoint that is gone, and then does not know its key: that is the only one of the condition which no
// other waitpoint has. stray_waitpoint gives it back.
struct LostKey {
  std::string key;
  std::string waitpoint;
};

std::optional<LostKey> lost_key(const Facts& facts) {
  if (!facts.suspension || !facts.core->is("suspended")) return {};
  std::set<std::string> keys;
  add_keys(json::parse(facts.suspension->condition, nullptr, false), keys);
  std::vector<std::string> without_key;
  for (const Waitpoint& each : facts.waitpoints) {
    if (!each.activated_at || !is_bound(each, *facts.suspension)) continue;
    if (each.key.empty())
      without_key.push_back(each.id);
    else
      keys.erase(each.key);
  }
  if (without_key.size() != 1 || keys.size() != 1 || keys.contains("")) return {};
  return LostKey{*keys.begin(), without_key.front()};
}

/// Tells a ResumeCondition of FlowFabric's as its `evaluate` would decide it.
class Teller {
 public:
  explicit Teller(const Facts& facts)
      : signals_(json::parse(facts.suspension->signals, nullptr, false)),
        knows_all_(facts.waitpoints_in_all == static_cast<std::int64_t>(facts.waitpoints.size())) {
    // Those that are bound come first.
    for (const Waitpoint& waitpoint : facts.waitpoints) open_.emplace(waitpoint.key, waitpoint.id);
    if (const auto lost = lost_key(facts)) open_[lost->key] = lost->waitpoint;
  }

  Awaited of(const json& condition) const {
    if (condition == "OperatorOnly") return {"an operator's resume", false, Awaited::By::others};
    if (condition == "TimeoutOnly") return {"its time-out", false, Awaited::By::others};
    if (const json& single = member(condition, "Single"); single.is_object())
      return at(text_of(member(single, "waitpoint_key")), member(single, "matcher"));
    const json& body = member(condition, "Composite");
    if (member(body, "kind") == "AllOf") return all_of(member(body, "members"));
    if (member(body, "kind") == "Count") return count_of(body);
    return {};  // none that is_readable lets through
  }

 private:
  Awaited at(const std::string& key, const json& matcher) const {
    const json& name = member(matcher, "ByName");
    const auto open = open_.find(key);
    const bool is_closed = open == open_.end() && knows_all_;
    const std::string where =
        open != open_.end() ? open->second : '"' + key + (is_closed ? "\" (not open)" : "\"");
    const std::string signal = name.is_null() ? "any signal" : text_of(name);
    Awaited its{fmt::format("{} at waitpoint {}", signal.empty() ? R"("")" : signal, where)};
    its.has_come =
        std::ranges::any_of(signals_at(key), [&](const json& each) { return matches(matcher, each); });
    if (is_closed && !its.has_come) its.by = Awaited::By::nobody;
    return its;
  }

  Awaited all_of(const json& members) const {
    std::vector<Awaited> parts;
    Awaited all{.has_come = !members.empty(),
                .by = members.empty() ? Awaited::By::nobody : Awaited::By::signal};
    for (const json& each : members) {
      parts.push_back(of(each));
      Awaited& part = parts.back();
      if (part.text.empty()) return {};
      if (each.contains("Composite")) part.text = "[" + part.text + "]";
      all.has_come = all.has_come && part.has_come;
      if (!part.has_come) all.by = std::max(all.by, part.by);
    }
    all.text = listed(fmt::format("all of {}", parts.size()), come_of(parts), parts);
    return all;
  }

  // Of distinct waitpoints each counts once; of the other kinds another signal may come where one has come.
  Awaited count_of(const json& body) const {
    const json& kind = member(body, "count_kind");
    const json& n = member(body, "n");
    const bool by_waitpoint = kind == "DistinctWaitpoints";
    const bool by_signal = kind == "DistinctSignals";
    if (!n.is_number_unsigned() || (!by_waitpoint && !by_signal && kind != "DistinctSources")) return {};
    std::vector<Awaited> parts;
    std::set<std::string> keys;
    std::set<std::string> distinct;
    for (const json& each : member(body, "waitpoints")) {
      const std::string key = text_of(each);
      if (!keys.insert(key).second) continue;
      parts.push_back(at(key, member(body, "matcher")));
      for (const json& signal : signals_at(key))
        if (matches(member(body, "matcher"), signal))
          distinct.insert(by_waitpoint ? key : distinguishes(signal, by_signal));
    }
    if (!by_waitpoint)
      for (Awaited& part : parts) part.has_come = false;
    const auto wanted = n.get<std::uint64_t>();
    const auto open = static_cast<std::uint64_t>(std::ranges::count_if(
        parts, [](const Awaited& part) { return !part.has_come && part.by == Awaited::By::signal; }));
    const bool can_come = by_waitpoint ? distinct.size() + open >= wanted : open > 0;
    const std::string what = by_waitpoint ? fmt::format("{} of {}", wanted, parts.size())
                                          : fmt::format("{} {}{}", wanted, by_signal ? "signal" : "source",
                                                        wanted == 1 ? "" : "s");
    Awaited its{listed(what, distinct.size(), parts)};
    its.has_come = distinct.size() >= wanted;
    if (!its.has_come && !can_come) its.by = Awaited::By::nobody;
    return its;
  }

  // What is no list holds no signal, whatever it holds.
  const json& signals_at(const std::string& key) const {
    static const json kNoSignals = json::array();
    const json& its = member(signals_, key.c_str());
    return its.is_array() ? its : kNoSignals;
  }

  static std::string distinguishes(const json& signal, bool by_signal) {
    if (by_signal) return text_of(member(signal, "signal_id"));
    return json::array({member(signal, "source_type"), member(signal, "source_identity")}).dump();
  }

  json signals_;
  bool knows_all_;                           // of the waitpoints
  std::map<std::string, std::string> open_;  // the ids by their keys
};

// As serde reads a ResumeCondition. A Count may be without a matcher, a Single may not.
bool is_readable(const json& condition) {
  if (condition == "OperatorOnly" || condition == "TimeoutOnly") return true;
  if (!condition.is_object() || condition.size() != 1) return false;
  const auto matches_some = [](const json& matcher) {
    return matcher == "Wildcard" || member(matcher, "ByName").is_string();
  };
  const json& single = member(condition, "Single");
  if (single.is_object())
    return member(single, "waitpoint_key").is_string() && matches_some(member(single, "matcher"));
  const json& body = member(condition, "Composite");
  if (const json& members = member(body, "members"); member(body, "kind") == "AllOf")
    return members.is_array() && std::ranges::all_of(members, is_readable);
  constexpr std::array kKinds{"DistinctWaitpoints", "DistinctSignals", "DistinctSources"};
  const json& n = member(body, "n");
  const json& keys = member(body, "waitpoints");
  const json& matcher = member(body, "matcher");
  return member(body, "kind") == "Count" && n.is_number_unsigned() &&
         n.get<std::uint64_t>() <= std::numeric_limits<std::uint32_t>::max() && keys.is_array() &&
         std::ranges::all_of(keys, [](const json& key) { return key.is_string(); }) &&
         (matcher.is_null() || matches_some(matcher)) &&
         std::ranges::find(kKinds, text_of(member(body, "count_kind"))) != kKinds.end();
}

// FlowFabric's deliver_signal appends to such a list, or refuses the signal.
bool takes_signals(const json& member_map) {
  return member_map.is_object() &&
         std::ranges::all_of(member_map, [](const json& signals) { return signals.is_array(); });
}

// No text: the condition cannot be read.
Awaited awaited(const Facts& facts) {
  const json condition = json::parse(facts.suspension->condition, nullptr, false);
  return is_readable(condition) ? Teller(facts).of(condition) : Awaited{};
}

bool is_any_astray(const Facts& facts) {
  return std::ranges::any_of(facts.waitpoints, [&](const Waitpoint& each) {
    return each.state == "active" &&
           !(facts.suspension && facts.core->is("suspended") && is_bound(each, *facts.suspension));
  });
}

std::string told(const Awaited& its, bool is_any_open) {
  if (its.by == Awaited::By::others) return fmt::format("it waits for {}: no signal can resume it", its.text);
  if (its.text.empty()) return "FlowFabric refuses signals: its condition cannot be read";
  if (!is_any_open) return "no waitpoint of its is open, so no signal can reach it";
  if (its.by == Awaited::By::nobody)
    return fmt::format("it waits for {}: no signal can bring that about", its.text);
  if (its.has_come)
    return "what it waits for has come, but FlowFabric resumes it only when one more signal comes";
  return "it waits for " + its.text;
}

// A stray one of which the present suspension wants the key.
bool counts_for_the_present_one(const Facts& facts) {
  if (!facts.suspension || !facts.core->is("suspended")) return false;
  std::set<std::string> keys;
  add_keys(json::parse(facts.suspension->condition, nullptr, false), keys);
  return std::ranges::any_of(facts.waitpoints, [&](const Waitpoint& each) {
    return each.state == "active" && !is_bound(each, *facts.suspension) && keys.contains(each.key);
  });
}

}  // namespace

void add_suspended(const Facts& facts, std::vector<Finding>& found) {
  if (!facts.suspension) {
    const audit::Check& check = audit::check_named("suspended_without_suspension");
    found.push_back({check.name, std::string(check.meaning), remedy(check.name, facts.id)});
    return;
  }
  const Suspension& suspension = *facts.suspension;
  if (const auto lost = lost_key(facts))
    found.push_back(
        {"waitpoint_without_key",
         fmt::format("FlowFabric has lost the key \"{}\" of waitpoint {}: no signal on it counts until "
                     "stray_waitpoint has given it back",
                     lost->key, lost->waitpoint),
         tick("stray_waitpoint", facts.id)});
  const bool is_refused = !takes_signals(json::parse(suspension.signals, nullptr, false));
  if (is_refused) {
    const audit::Check& check = audit::check_named("signals_refused");
    found.push_back({check.name, std::string(check.meaning), remedy(check.name, facts.id)});
  }
  const std::string deliver =
      is_refused ? "mend signals_refused, then deliver the signal" : "deliver the signal";
  const Awaited its = awaited(facts);
  const bool is_any_open = !facts.waitpoints.empty();
  const bool is_for_others = its.by == Awaited::By::others;
  const bool by_signal = its.by == Awaited::By::signal && !its.text.empty() && is_any_open;
  const std::string waits = told(its, is_any_open);
  const std::string operators = "an operator's resume or cancel in FlowFabric";
  const Inspection* inspection = facts.inspection("suspension_timeout");
  if (!suspension.timeout_at)
    found.push_back({by_signal       ? "waits_for_signal"
                     : is_for_others ? "waits_for_operator"
                                     : "suspended_for_ever",
                     waits + "; there is no time-out",
                     by_signal ? deliver + ", or resume or cancel it in FlowFabric" : operators});
  else if (inspection != nullptr && inspection->due())
    found.push_back({"suspension_over",
                     fmt::format("its suspension's time-out ({}) was {}", suspension.behavior,
                                 when(*suspension.timeout_at, facts.now)),
                     tick("suspension_timeout", facts.id)});
  else
    found.push_back({"suspended_until",
                     fmt::format("{}; its time-out ({}) is {}", waits, suspension.behavior,
                                 when(*suspension.timeout_at, facts.now)),
                     (by_signal ? deliver : operators) + ", or wait: suspension_timeout acts then"});
}

void add_waitpoints(const Facts& facts, std::vector<Finding>& found) {
  const Inspection* stray = facts.inspection("stray_waitpoint");
  if (stray != nullptr && stray->due() && (is_any_astray(facts) || !lost_key(facts)))
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
