#pragma once

#include <string>
#include <vector>

#include "base/ids.hpp"
#include "pg/transaction.hpp"

/// The rows of a flow as FlowFabric's clients stage it, call by call; here all in one transaction, so that nothing ends
/// before those that depend on it are known.
namespace ff::simulation {

struct FlowRow {
  PartitionKey partition;
  Uuid id;
  std::string name_space;
};

void create_flow(pg::Transaction& transaction, const FlowRow& flow);
/// Executions that were made with this flow_id.
void add_members(pg::Transaction& transaction, const FlowRow& flow, int number);
/// What `downstream` waits for, by this policy, as JSON; each edge staged and applied.
void add_fan_in(pg::Transaction& transaction, const FlowRow& flow, const std::vector<ExecutionId>& upstreams,
                const ExecutionId& downstream, const std::string& policy);

inline constexpr const char* kAllOf = R"({"kind": "all_of"})";

}  // namespace ff::simulation
