#include "long/ledger.hpp"

#include <algorithm>

namespace ff::test {
namespace {

// Rows of one execution by their key.
void put(std::vector<Json>& rows, const char* key, const Change& change) {
  std::erase_if(rows, [&](const Json& row) { return row.at(key) == change.row.at(key); });
  if (change.operation != "DELETE") rows.push_back(change.row);
}

// An event is told once; that it was dispatched, or deleted, tells nothing new.
void hear(ExecutionRows& rows, const Change& event) {
  if (event.operation != "INSERT") return;
  if (event.table == "ff_completion_event" && event.row.at("outcome") != "resumable")
    rows.ends.push_back(event.row);
  if (event.table == "ff_lease_event") {
    const std::string type = event.row.at("event_type");
    rows.lease_events += type == "expired" || type == "revoked" ? 1 : 0;
  }
  if (event.table == "ff_operator_event" && event.row.at("event_type") == "replayed")
    rows.replayed_at_ms = event.row.at("occurred_at_ms");
}

}  // namespace

std::string execution_of(const Change& change) {
  return change.row.at(change.table == "ff_edge_group" ? "downstream_eid" : "execution_id");
}

void Ledger::apply(const Change& change) {
  const std::string uuid = execution_of(change);
  ExecutionRows& rows = executions_[uuid];
  const Json left = change.operation == "DELETE" ? Json() : change.row;
  if (change.table == "ff_exec_core") {
    rows.core = left;
  } else if (change.table == "ff_attempt") {
    const int index = change.row.at("attempt_index");
    rows.attempts.erase(index);
    if (!left.is_null()) rows.attempts.emplace(index, left);
  } else if (change.table == "ff_suspension_current") {
    rows.suspension = left;
  } else if (change.table == "ff_waitpoint_pending") {
    put(rows.waitpoints, "waitpoint_id", change);
  } else if (change.table == "ff_claim_grant") {
    put(rows.grants, "grant_id", change);
  } else if (change.table == "ff_edge_group") {
    rows.group = left;
    downstreams_[change.row.at("flow_id")].insert(uuid);
  } else {
    hear(rows, change);
  }
}

Snapshot Ledger::excerpt(const std::set<std::string>& uuids, std::int64_t now_ms) {
  Snapshot snapshot;
  snapshot.now_ms = now_ms;
  for (const std::string& uuid : uuids) {
    const ExecutionRows& rows = snapshot.executions[uuid] = executions_[uuid];
    const std::string flow = rows.text("flow_id");
    if (flow.empty()) continue;
    for (const std::string& downstream : downstreams_[flow])
      if (const Json& group = executions_[downstream].group; group.is_object())
        snapshot.groups.emplace(downstream, group);
  }
  return snapshot;
}

}  // namespace ff::test
