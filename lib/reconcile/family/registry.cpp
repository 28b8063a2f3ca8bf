#include "reconcile/family/registry.hpp"

#include <algorithm>

#include "reconcile/statements.hpp"

namespace ff::reconcile {

namespace {

// A statement that cannot be made is better known now than when it is first needed.
std::vector<Reconciler> checked(std::vector<Reconciler> all) {
  for (const Reconciler& reconciler : all) {
    const Statements statements(reconciler);
    checked(reconciler.companions);
  }
  return all;
}

}  // namespace

const std::vector<Reconciler>& registry() {
  static const std::vector<Reconciler> all = checked({
#define FF_RECONCILER(name) name(),
#include "reconcile/family/registry.def"
#undef FF_RECONCILER
  });
  return all;
}

const std::vector<Reconciler>& all_pairs() {
  static const std::vector<Reconciler> all = [] {
    std::vector<Reconciler> pairs;
    for (const Reconciler& reconciler : registry()) {
      pairs.push_back(reconciler);
      pairs.back().companions.clear();
      pairs.insert(pairs.end(), reconciler.companions.begin(), reconciler.companions.end());
    }
    return pairs;
  }();
  return all;
}

const Reconciler* find_reconciler(std::string_view name) {
  const auto& all = registry();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Reconciler& r) { return r.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Settings default_settings(const Reconciler& reconciler) {
  Settings settings;
  for (const SettingDecl& decl : reconciler.settings)
    if (decl.kind != SettingDecl::Kind::durations) settings.emplace(decl.name, decl.fallback);
  return settings;
}

std::int64_t limit_of(const Settings& own, const SettingDecl& limit) {
  const auto found = own.find(limit.name);
  return found == own.end() ? 0 : found->second.value_or(0);
}

const Outcome* outcome_of(const Reconciler& pair, std::string_view name) {
  const auto found = std::ranges::find(pair.outcomes, name, &Outcome::name);
  return found == pair.outcomes.end() ? nullptr : &*found;
}

bool ends_or_deletes(const Reconciler& pair) {
  return !pair.ends_others.empty() || std::ranges::any_of(pair.outcomes, [](const Outcome& outcome) {
    return ends_or_deletes(outcome.effect);
  });
}

bool gives_back(const Reconciler& pair) {
  return std::ranges::find(pair.outcomes, Effect::given_back, &Outcome::effect) != pair.outcomes.end();
}

std::vector<std::string_view> all_outcomes(const Reconciler& reconciler) {
  std::vector<std::string_view> all;
  const auto add = [&](const Reconciler& pair) {
    for (const Outcome& outcome : pair.outcomes)
      if (std::ranges::find(all, outcome.name) == all.end()) all.push_back(outcome.name);
  };
  add(reconciler);
  for (const Reconciler& companion : reconciler.companions) add(companion);
  return all;
}

}  // namespace ff::reconcile
