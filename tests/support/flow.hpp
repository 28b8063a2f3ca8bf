#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/rows.hpp"

/// Executions that wait for each other: rows for tests of the cascade, and a model of its rules that knows no
/// SQL.
namespace ff::test {

struct GroupRow {
  PartitionKey partition{3};
  Uuid flow{};
  Uuid downstream{};
  Json policy{};
  int success = 0;
  int fail = 0;
  int skip = 0;
  std::optional<int> running{};  ///< 0, or in insert_fan_in the upstreams not counted yet
  bool flag = false;
  std::vector<std::string> members{};
};
void insert_group(pg::Connection& connection, const GroupRow& row);
/// The edge group of this downstream; throws when there is none or several.
Json edge_group(pg::Connection& connection, const Uuid& downstream);
/// Its counts as "success/fail/skip/running".
std::string counts(pg::Connection& connection, const Uuid& downstream);

/// Applied unless told otherwise: only then is it in the counts of its group.
void insert_edge(pg::Connection& connection, PartitionKey partition, const Uuid& flow, const Uuid& upstream,
                 const Uuid& downstream, const Json& policy = {{"edge_state", "applied"}});
void insert_pending(pg::Connection& connection, PartitionKey partition, const Uuid& flow,
                    const Uuid& downstream, std::int64_t enqueued_at_ms);

struct CompletionRow {
  PartitionKey partition{3};
  Uuid execution{};
  std::optional<Uuid> flow{};
  std::string outcome = "success";
  std::optional<std::string> name_space{};
  std::optional<std::string> instance_tag{};
  std::int64_t committed_ago_ms = 60'000;
  std::optional<std::int64_t> dispatched_at_ms{};
};
/// Returns its event_id.
std::int64_t insert_completion(pg::Connection& connection, const CompletionRow& row);
/// When the event of this number was dispatched; null: not yet.
Json dispatched_at(pg::Connection& connection, std::int64_t event);

/// One downstream with its group, and the upstreams that it waits for, all of one flow in partition 3.
struct FanIn {
  PartitionKey partition{3};
  Uuid flow = new_uuid();
  Uuid downstream = new_uuid();
  std::vector<Uuid> upstreams{};
};
/// So many active upstreams; `group` gives the policy and, where it matters, the counts; of the downstream's
/// row, partition, execution and flow are filled in.
FanIn insert_fan_in(pg::Connection& connection, int upstreams, GroupRow group,
                    CoreRow downstream = {.state = blocked()});
/// What a worker does to the upstream of that number, committed a minute ago: returns the event's id.
std::int64_t end_upstream(pg::Connection& connection, const FanIn& fan_in, std::size_t number,
                          const std::string& outcome = "success");

/// A flow as somebody might have planned it, and as it has to end. Every execution comes after those that it
/// waits for.
struct FlowPlan {
  enum class Kind { none, all_of, any_of, quorum };
  struct Execution {
    Uuid id = new_uuid();
    int level = 0;
    Kind kind = Kind::none;
    int k = 1;
    /// The siblings that its fan-in no longer needs are cancelled. Only racers are cancelled so.
    bool cancels_rest = false;
    /// Waited for by one execution only, which may cancel it: how it ends depends on who is first.
    bool racer = false;
    /// Running it takes long enough for others to cancel it meanwhile.
    bool slow = false;
    /// What a worker that runs it to the end makes of it.
    bool succeeds = true;
    std::vector<std::size_t> waits_for{};
  };
  std::vector<Execution> executions{};

  /// public_state of each in the end, by the rules alone. For a racer: how it ends unless it is cancelled.
  std::vector<std::string> ends() const;
};

/// Levels of the same size; below the first, each fan-in waits for executions of the level before.
FlowPlan make_plan(std::mt19937& generator, int levels, int per_level);
/// Edges, groups and executions, those of the first level ready to be claimed.
void insert_plan(pg::Connection& connection, const FlowPlan& plan, PartitionKey partition, const Uuid& flow);

}  // namespace ff::test
