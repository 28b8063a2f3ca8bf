#include "long/company.hpp"

#include <algorithm>

namespace ff::test {
namespace {

/// Few, so that several meet at each; then an execution is left to those who hold it, and to the daemon.
constexpr std::ptrdiff_t kInPlay = 40;

}  // namespace

std::optional<Json> Company::resolved(const Step& step) {
  const std::lock_guard lock(mutex_);
  return names_.resolved(step);
}

void Company::learn(const Step& step, const Json& told) {
  const std::lock_guard lock(mutex_);
  names_.learn(step, told);
  if (step.at("do") == "create_execution") created_.push_back(step.at("as"));
}

std::string Company::uuid_of(const std::string& execution) {
  const std::lock_guard lock(mutex_);
  return names_.uuid_of(execution);
}

std::string Company::waitpoint_of(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  return names_.waitpoint_of(uuid);
}

std::map<std::string, std::string> Company::flows() {
  const std::lock_guard lock(mutex_);
  return names_.flows;
}

std::vector<std::string> Company::budgets() {
  const std::lock_guard lock(mutex_);
  return names_.budgets;
}

std::map<std::string, std::string> Company::in_play(const std::vector<std::string>& as_well) {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> found;
  for (const std::string& name : as_well) found[name] = names_.executions.at(name);
  for (auto name = created_.end() - std::min<std::ptrdiff_t>(std::ssize(created_), kInPlay);
       name != created_.end(); ++name)
    found[*name] = names_.executions.at(*name);
  return found;
}

}  // namespace ff::test
