#include "histories/names.hpp"

namespace ff::test {

std::optional<Json> Names::resolved(const Step& step) const {
  Json request = step;
  request.erase("do");
  const auto resolve = [&](const char* field, const std::map<std::string, std::string>& names) {
    const auto given = request.find(field);
    if (given == request.end()) return true;
    const auto found = names.find(given->get<std::string>());
    if (found == names.end()) return false;
    *given = found->second;
    return true;
  };
  for (const char* field : {"execution", "upstream", "downstream"})
    if (!resolve(field, executions)) return std::nullopt;
  if (!resolve("flow", flows) || !resolve("budget", budget_ids_) || !resolve("quota", quota_ids_))
    return std::nullopt;
  // Each execution has a lane of its own, so that a claim is a claim of this one.
  if (step.contains("execution")) request["lane"] = step.at("execution");
  if (step.at("do") == "create_execution") request["lane"] = step.at("as");
  // What the program keeps under a name are leases.
  if (!claims(step.at("do"))) request.erase("as");
  if (step.contains("waitpoint")) {
    const auto found = waitpoints_.find(step.at("waitpoint"));
    if (found == waitpoints_.end()) return std::nullopt;
    request["waitpoint"] = found->second.id;
    request["token"] = found->second.token;
  }
  if (step.contains("pending")) {
    const auto found = waitpoints_.find(step.at("pending"));
    if (found == waitpoints_.end()) return std::nullopt;
    request["waitpoints"] = {{{"pending", found->second.id}, {"key", step.value("key", "wait")}}};
  }
  if (step.contains("edge")) {
    const auto found = edges.find(step.at("edge"));
    if (found == edges.end()) return std::nullopt;
    const Edge& edge = found->second;
    request.update({{"edge", edge.id},
                    {"flow", flows.at(edge.flow)},
                    {"upstream", executions.at(edge.upstream)},
                    {"downstream", executions.at(edge.downstream)}});
  }
  return request;
}

void Names::learn(const Step& step, const Json& told, const std::string& execution) {
  const std::string what = step.at("do");
  if (what == "create_execution") {
    const std::string name = step.at("as");
    executions[name] = told.at("execution");
    uuids_[told.at("uuid")] = name;
    if (step.contains("flow")) members[step.at("flow")].push_back(name);
  }
  if (what == "add_execution_to_flow") members[step.at("flow")].push_back(execution);
  if (what == "create_flow") flows[step.at("as")] = told.at("flow");
  if (what == "create_budget") {
    budget_ids_[step.at("as")] = told.at("budget");
    budgets.push_back(step.at("as"));
  }
  if (what == "create_quota_policy") {
    quota_ids_[step.at("as")] = told.at("quota");
    quotas.push_back(step.at("as"));
  }
  if (what == "stage_edge" && step.contains("as"))
    edges[step.at("as")] = {told.at("edge"), step.at("flow"), step.at("upstream"), step.at("downstream"),
                            step.value("apply", false)};
  if (what == "apply_edge") edges.at(step.at("edge")).applied = true;
  if (what == "create_waitpoint")
    waitpoints_[step.at("as")] = {told.at("waitpoint"), told.at("token"), execution};
  if (what == "suspend")
    for (std::size_t i = 0; i < told.at("waitpoints").size() && i < step.at("names").size(); ++i) {
      const Json& one = told.at("waitpoints").at(i);
      waitpoints_[step.at("names").at(i)] = {one.at("waitpoint"), one.at("token"), execution};
    }
}

std::string Names::execution_of(const std::string& uuid) const {
  const auto found = uuids_.find(uuid);
  return found == uuids_.end() ? uuid : found->second;
}

std::string Names::uuid_of(const std::string& execution) const {
  const std::string& id = executions.at(execution);
  return id.substr(id.find("}:") + 2);
}

std::string Names::budget_of(const std::string& id) const {
  for (const auto& [name, known] : budget_ids_)
    if (known == id) return name;
  return id;
}

std::vector<std::string> Names::waitpoints_of(const std::string& execution) const {
  std::vector<std::string> found;
  for (const auto& [name, waitpoint] : waitpoints_)
    if (waitpoint.execution == execution) found.push_back(name);
  return found;
}

std::vector<std::string> Names::staged_edges() const {
  std::vector<std::string> found;
  for (const auto& [name, edge] : edges)
    if (!edge.applied) found.push_back(name);
  return found;
}

}  // namespace ff::test
