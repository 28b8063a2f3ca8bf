#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "histories/names.hpp"

namespace ff::test {

/// What all workers of a run know of: names, and which executions are in play. Safe from any thread.
class SharedState {
 public:
  std::optional<Json> resolved(const Step& step);
  void learn(const Step& step, const Json& told, const std::string& execution);

  std::string uuid_of(const std::string& execution);
  std::vector<std::string> waitpoints_of(const std::string& execution);
  std::vector<std::string> members_of(const std::string& flow);
  std::vector<std::string> staged_edges();
  std::string upstream_of(const std::string& edge);
  std::map<std::string, std::string> flows();
  std::vector<std::string> budgets();
  std::vector<std::string> quotas();
  /// The executions that were created last, and these.
  std::map<std::string, std::string> in_play(const std::vector<std::string>& as_well);

 private:
  std::mutex mutex_;
  Names names_;
  std::vector<std::string> created_;
};

}  // namespace ff::test
