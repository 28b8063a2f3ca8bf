#include "long/shared_state.hpp"

#include <algorithm>

namespace ff::test {
namespace {

/// Few, so that several meet at each; then an execution is left to those who hold it, and to the daemon.
constexpr std::ptrdiff_t kInPlay = 40;

}  // namespace

std::optional<Json> SharedState::resolved(const Step& step) {
  const std::lock_guard lock(mutex_);
  return names_.resolved(step);
}

void SharedState::learn(const Step& step, const Json& told, const std::string& execution) {
  const std::lock_guard lock(mutex_);
  names_.learn(step, told, execution);
  if (step.at("do") == "create_execution") created_.push_back(step.at("as"));
}

std::string SharedState::uuid_of(const std::string& execution) {
  const std::lock_guard lock(mutex_);
  return names_.uuid_of(execution);
}

std::vector<std::string> SharedState::waitpoints_of(const std::string& execution) {
  const std::lock_guard lock(mutex_);
  return names_.waitpoints_of(execution);
}

std::vector<std::string> SharedState::members_of(const std::string& flow) {
  const std::lock_guard lock(mutex_);
  const auto found = names_.members.find(flow);
  return found == names_.members.end() ? std::vector<std::string>{} : found->second;
}

std::vector<std::string> SharedState::staged_edges() {
  const std::lock_guard lock(mutex_);
  return names_.staged_edges();
}

std::string SharedState::upstream_of(const std::string& edge) {
  const std::lock_guard lock(mutex_);
  return names_.edges.at(edge).upstream;
}

std::map<std::string, std::string> SharedState::flows() {
  const std::lock_guard lock(mutex_);
  return names_.flows;
}

std::vector<std::string> SharedState::budgets() {
  const std::lock_guard lock(mutex_);
  return names_.budgets;
}

std::vector<std::string> SharedState::quotas() {
  const std::lock_guard lock(mutex_);
  return names_.quotas;
}

std::map<std::string, std::string> SharedState::in_play(const std::vector<std::string>& as_well) {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> found;
  for (const std::string& name : as_well) found[name] = names_.executions.at(name);
  for (auto name = created_.end() - std::min<std::ptrdiff_t>(std::ssize(created_), kInPlay);
       name != created_.end(); ++name)
    found[*name] = names_.executions.at(*name);
  return found;
}

}  // namespace ff::test
