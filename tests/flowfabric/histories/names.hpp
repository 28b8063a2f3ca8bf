#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "histories/step.hpp"

namespace ff::test {

struct Waitpoint {
  std::string id;
  std::string token;
  std::string execution;  ///< by name
};

struct Edge {
  std::string id;
  std::string flow;
  std::string upstream;
  std::string downstream;
  bool applied = false;
};

/// What the names in the steps of a history stand for. One thread at a time.
class Names {
 public:
  /// The request to the program in tests/flowfabric; nothing: a name in it means nothing (yet).
  std::optional<Json> resolved(const Step& step) const;
  /// After a step that succeeded. `told`: the program's answer; `execution`: the one that the step was about.
  void learn(const Step& step, const Json& told, const std::string& execution);

  std::string execution_of(const std::string& uuid) const;
  std::string uuid_of(const std::string& execution) const;
  std::string budget_of(const std::string& id) const;
  /// All that the execution ever had.
  std::vector<std::string> waitpoints_of(const std::string& execution) const;
  /// That were staged and not applied yet.
  std::vector<std::string> staged_edges() const;

  std::map<std::string, std::string> executions;  ///< name -> {fp:N}:uuid
  std::map<std::string, std::string> flows;
  std::map<std::string, std::vector<std::string>> members;  ///< of a flow, by name
  std::map<std::string, Edge> edges;
  std::vector<std::string> budgets;
  std::vector<std::string> quotas;

 private:
  std::map<std::string, std::string> uuids_;  // uuid -> name
  std::map<std::string, std::string> budget_ids_;
  std::map<std::string, std::string> quota_ids_;
  std::map<std::string, Waitpoint> waitpoints_;
};

}  // namespace ff::test
