#pragma once

#include <map>
#include <string>
#include <vector>

#include "histories/snapshot.hpp"
#include "histories/step.hpp"

namespace ff::test {

/// A lease that some worker believes to have.
struct Lease {
  std::string handle;
  std::string execution;  ///< by name
  std::int64_t attempt = 0;
  std::int64_t epoch = 0;
  std::int64_t ttl_ms = 0;
  std::int64_t ends_at_ms = 0;  ///< by the worker's own clock, in the time of the history
  bool behind = false;
  bool given_up = false;  ///< by the worker itself
  bool lost = false;      ///< taken for a good reason
  bool fenced = false;    ///< by a turn of a reconciler
};

/// Where a history is played, as far as who invents its steps has to know.
class Theatre {
 public:
  virtual ~Theatre() = default;
  /// False: it did nothing, because a name in it means nothing (yet) or FlowFabric refused.
  virtual bool perform(const Step& step) = 0;

  /// Executions: name -> {fp:N}:uuid.
  virtual const std::map<std::string, std::string>& names() const = 0;
  virtual const std::map<std::string, std::string>& flows() const = 0;
  virtual const std::vector<Lease>& leases() const = 0;
  virtual const std::vector<std::string>& budgets() const = 0;
  virtual const std::vector<std::string>& quotas() const = 0;
  virtual ExecutionRows rows_of(const std::string& execution) = 0;
  virtual std::vector<std::string> members_of(const std::string& flow) const = 0;
  /// That were staged and not applied yet.
  virtual std::vector<std::string> staged_edges() const = 0;
  /// All that the execution ever had.
  virtual std::vector<std::string> waitpoints_of(const std::string& execution) const = 0;
};

}  // namespace ff::test
