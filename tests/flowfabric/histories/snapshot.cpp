#include "histories/snapshot.hpp"

#include <algorithm>

#include "histories/ageing.hpp"

namespace ff::test {
namespace {

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
  return text;
}

// $1: null for all, else one execution.
constexpr std::string_view kExecutions = R"sql(
SELECT jsonb_build_object(
  'now', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
  'core', (SELECT jsonb_agg(to_jsonb(t) - 'payload' - 'result') FROM ff_exec_core t WHERE {mine}),
  'attempt', (SELECT jsonb_agg(to_jsonb(t)) FROM ff_attempt t WHERE {mine}),
  'suspension', (SELECT jsonb_agg(to_jsonb(t)) FROM ff_suspension_current t WHERE {mine}),
  'waitpoint', (SELECT jsonb_agg(to_jsonb(t) - 'token' ORDER BY waitpoint_id) FROM ff_waitpoint_pending t WHERE {mine}),
  'groups', (SELECT jsonb_agg(to_jsonb(t)) FROM ff_edge_group t
              WHERE t.partition_key = ANY({partitions}) AND ($1 IS NULL OR t.downstream_eid = $1::uuid)),
  'grant', (SELECT jsonb_agg(to_jsonb(t)) FROM ff_claim_grant t WHERE {mine}),
  'cancel', (SELECT jsonb_agg(to_jsonb(b) || jsonb_build_object('execution_id', split_part(m.execution_id, '}:', 2)))
               FROM ff_cancel_backlog_member m JOIN ff_cancel_backlog b USING (partition_key, flow_id)
              WHERE m.partition_key = ANY({partitions}) AND b.partition_key = ANY({partitions})
                AND ($1 IS NULL OR split_part(m.execution_id, '}:', 2) = $1)),
  'flow_policy', (SELECT jsonb_agg(jsonb_build_object('execution_id', t.execution_id,
                                                      'policy', f.raw_fields->>'cancellation_policy'))
                    FROM ff_exec_core t JOIN ff_flow_core f USING (partition_key, flow_id)
                   WHERE {mine} AND f.raw_fields->>'cancellation_policy' IS NOT NULL),
  'ends', (SELECT jsonb_agg(to_jsonb(t) ORDER BY event_id) FROM ff_completion_event t
            WHERE {mine} AND outcome <> 'resumable'),
  'lease_events', (SELECT jsonb_agg(to_jsonb(e)) FROM (SELECT execution_id, count(*) AS number
             FROM ff_lease_event t WHERE ($1 IS NULL OR execution_id = $1)
              AND event_type IN ('expired', 'revoked') GROUP BY execution_id) e),
  'replayed', (SELECT jsonb_agg(to_jsonb(e)) FROM (SELECT execution_id, max(occurred_at_ms) AS at
             FROM ff_operator_event t WHERE ($1 IS NULL OR execution_id = $1)
              AND event_type = 'replayed' GROUP BY execution_id) e))::text
)sql";

constexpr std::string_view kMine =
    "t.partition_key = ANY({partitions}) AND ($1 IS NULL OR t.execution_id = $1::uuid)";

constexpr std::string_view kRest = R"sql(
SELECT jsonb_build_object(
  'edge', (SELECT jsonb_agg(to_jsonb(t)) FROM ff_edge t WHERE partition_key = ANY({partitions})),
  'undispatched', (SELECT count(*) FROM ff_completion_event
                    WHERE partition_key = ANY({partitions}) AND dispatched_at_ms IS NULL),
  'budget', (SELECT jsonb_agg(to_jsonb(t) || jsonb_build_object('spent',
                 (SELECT coalesce(sum(delta_total), 0) FROM ff_budget_usage_by_exec u
                   WHERE u.partition_key = t.partition_key AND u.budget_id = t.budget_id
                     AND u.dimensions_key = t.dimensions_key
                     AND u.partition_key = ANY({partitions}))))
               FROM ff_budget_usage t WHERE partition_key = ANY({partitions})),
  'worker', (SELECT jsonb_agg(to_jsonb(t)) FROM ff_worker_registry t WHERE partition_key = ANY({partitions})),
  'backlogs', (SELECT count(*) FROM ff_cancel_backlog WHERE partition_key = ANY({partitions})),
  'sweeps', (SELECT count(*) FROM ff_worker_registry_event
              WHERE partition_key = ANY({partitions}) AND event_kind = 'ttl_swept'))::text
)sql";

const std::string& executions_statement() {
  static const std::string text =
      replaced(replaced(std::string(kExecutions), "{mine}", kMine), "{partitions}", kHistoryPartitions);
  return text;
}

const std::string& rest_statement() {
  static const std::string text = replaced(std::string(kRest), "{partitions}", kHistoryPartitions);
  return text;
}

Json list(const Json& all, std::string_view name) {
  const Json& found = all.at(std::string(name));
  return found.is_null() ? Json::array() : found;
}

Snapshot read_executions(const Json& all) {
  Snapshot snapshot;
  snapshot.now_ms = all.at("now");
  auto& by_id = snapshot.executions;
  const auto of = [&](const Json& row) -> ExecutionRows& { return by_id[row.at("execution_id")]; };
  for (Json& row : list(all, "core")) of(row).core = row;
  for (Json& row : list(all, "attempt")) of(row).attempts.emplace(row.at("attempt_index").get<int>(), row);
  for (Json& row : list(all, "suspension")) of(row).suspension = row;
  for (Json& row : list(all, "groups")) by_id[row.at("downstream_eid")].group = row;
  for (Json& row : list(all, "waitpoint")) of(row).waitpoints.push_back(row);
  for (Json& row : list(all, "grant")) of(row).grants.push_back(row);
  for (Json& row : list(all, "cancel")) of(row).cancel = row;
  for (Json& row : list(all, "flow_policy")) of(row).flow_policy = row.at("policy");
  for (Json& row : list(all, "ends")) of(row).ends.push_back(row);
  for (Json& row : list(all, "lease_events")) of(row).lease_events = row.at("number");
  for (Json& row : list(all, "replayed"))
    if (by_id.contains(row.at("execution_id"))) of(row).replayed_at_ms = row.at("at");
  return snapshot;
}

Json ask(pg::Connection& connection, const std::string& sql, const pg::Params& params) {
  return Json::parse(connection.execute_prepared(sql, params).one().get<std::string>(0));
}

}  // namespace

std::string ExecutionRows::text(std::string_view column) const {
  const auto found = core.find(std::string(column));
  return found != core.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<std::int64_t> ExecutionRows::moment(std::string_view column) const {
  const auto found = core.find(std::string(column));
  if (found == core.end() || !found->is_number()) return std::nullopt;
  return found->get<std::int64_t>();
}

bool ExecutionRows::ended() const {
  const std::string phase = text("lifecycle_phase");
  return phase == "terminal" || phase == "cancelled";
}

bool ExecutionRows::told() const {
  const auto end = moment("terminal_at_ms");
  return std::any_of(ends.begin(), ends.end(), [&](const Json& event) {
    return !end || !replayed_at_ms || event.at("occurred_at_ms") >= *end ||
           event.at("committed_at_ms") > *replayed_at_ms;
  });
}

bool ExecutionRows::to_be_told() const {
  return text("lifecycle_phase") == "cancelled" && cancel.is_object() && !told();
}

std::optional<int> ExecutionRows::current_attempt() const {
  std::optional<int> found;
  if (text("lifecycle_phase") == "active")
    for (const auto& [index, row] : attempts)
      if (lease_of(index)) found = index;
  if (!found && !attempts.empty()) found = attempts.rbegin()->first;
  return found;
}

std::optional<std::int64_t> ExecutionRows::lease_of(int attempt) const {
  const auto found = attempts.find(attempt);
  if (found == attempts.end() || found->second.at("lease_expires_at_ms").is_null()) return std::nullopt;
  return found->second.at("lease_expires_at_ms").get<std::int64_t>();
}

bool ExecutionRows::live_grant(std::string_view kind, std::int64_t now_ms) const {
  return std::any_of(grants.begin(), grants.end(), [&](const Json& grant) {
    return grant.at("kind") == kind && grant.at("expires_at_ms").get<std::int64_t>() > now_ms;
  });
}

std::string ExecutionRows::state() const {
  std::string words;
  for (const char* column :
       {"lifecycle_phase", "ownership_state", "eligibility_state", "public_state", "attempt_state"})
    words += (words.empty() ? "" : "/") + text(column);
  return words + " at " + (core.is_object() ? core.at("attempt_index").dump() : "?");
}

bool Snapshot::waits(const Json& edge) const {
  const ExecutionRows& upstream = executions.at(edge.at("upstream_eid"));
  const ExecutionRows& downstream = executions.at(edge.at("downstream_eid"));
  const std::string phase = downstream.text("lifecycle_phase");
  if (edge.at("policy").value("edge_state", "") == "pending") return false;
  if (phase != "submitted" && phase != "runnable" && phase != "blocked") return false;
  return downstream.text("eligibility_state") == "blocked_by_dependencies" || !downstream.replayed_at_ms ||
         *downstream.replayed_at_ms <= upstream.moment("terminal_at_ms").value_or(0);
}

// The end of who was replayed may be counted already: it is missed only where more are counted as running than are to
// come, as completion_repair has it.
bool Snapshot::misses(const Json& edge) const {
  const std::string id = edge.at("upstream_eid");
  const bool is_replayed = executions.at(id).replayed_at_ms.has_value();
  if (!is_replayed) return true;
  const auto is_to_come = [&](const Json& each) {
    const std::string other = each.at("upstream_eid");
    const ExecutionRows& rows = executions.at(other);
    const bool is_on_its_way = std::ranges::any_of(rows.ends, [&](const Json& event) {
      const Json& at = event.at("dispatched_at_ms");
      return at.is_null() || at.get<std::int64_t>() >= now_ms - 60'000;
    });
    return !rows.ended() || is_on_its_way || ((!rows.replayed_at_ms || other < id) && !rows.told());
  };
  const auto group = groups.find(edge.at("downstream_eid"));
  return group != groups.end() &&
         group->second.at("running_count") > std::ranges::count_if(edges, [&](const Json& each) {
           return each.at("downstream_eid") == edge.at("downstream_eid") &&
                  each.at("policy").value("edge_state", "") != "pending" && is_to_come(each);
         });
}

bool Snapshot::is_waited_for(const std::string& execution) const {
  return std::any_of(edges.begin(), edges.end(), [&](const Json& edge) {
    return edge.at("upstream_eid") == execution && waits(edge) && misses(edge);
  });
}

Snapshot read_snapshot(pg::Connection& connection) {
  Snapshot snapshot =
      read_executions(ask(connection, executions_statement(), pg::Params::of(std::optional<std::string>{})));
  const Json rest = ask(connection, rest_statement(), {});
  for (const auto& [id, rows] : snapshot.executions)
    if (rows.group.is_object()) snapshot.groups.emplace(id, rows.group);
  for (Json& row : list(rest, "edge")) snapshot.edges.push_back(row);
  snapshot.undispatched = rest.at("undispatched");
  for (Json& row : list(rest, "budget")) snapshot.budgets.push_back(row);
  for (Json& row : list(rest, "worker")) snapshot.workers.emplace(row.at("worker_instance_id"), row);
  snapshot.sweeps = rest.at("sweeps");
  snapshot.backlogs = rest.at("backlogs");
  return snapshot;
}

ExecutionRows read_rows(pg::Connection& connection, const std::string& uuid) {
  Snapshot snapshot =
      read_executions(ask(connection, executions_statement(), pg::Params::of(std::optional(uuid))));
  return std::move(snapshot.executions[uuid]);
}

}  // namespace ff::test
