#pragma once

#include <map>
#include <string>

#include "support/rows.hpp"

/// What a stage is put together from: rows of FlowFabric's tables, with their defaults for a test.
namespace ff::test {

/// Column -> SQL expression over one line of `seed`: partition_key; the uuids id, earlier and later; due_ms;
/// name_space; raw_fields.
using Columns = std::map<std::string, std::string>;

/// One row in a table for each line of `seed`.
struct Part {
  std::string table;
  Columns columns;
};

Part core_part(const State& state, const std::string& execution, const Columns& more = {});
Part attempt_part(const std::string& execution, const std::string& lease_expires_at_ms,
                  const Columns& more = {});
Part suspension_part(const std::string& execution, const Columns& more = {});
Part waitpoint_part(const std::string& waitpoint, const std::string& execution, const Columns& more = {});
Part group_part(const std::string& flow, const std::string& downstream, const Columns& more);
Part edge_part(const std::string& flow, const std::string& upstream, const std::string& downstream);
Part pending_part(const std::string& flow, const std::string& downstream);
/// A flow's cancel, asked for at due_ms under cancel_all.
Part backlog_part(const std::string& flow, const Columns& more = {});
Part backlog_member_part(const std::string& flow, const std::string& execution);
/// The scheduler's, for a worker's claim.
Part grant_part(const std::string& execution, const std::string& expires_at_ms);
/// Appended at due_ms, dispatched by nobody.
Part completion_part(const std::string& execution, const std::string& outcome, const Columns& more = {});
Part lease_event_part(const std::string& execution, const std::string& type, const Columns& more = {});
/// A quota with so many counted at work.
Part quota_part(const std::string& active_concurrency);
/// An admission to it.
Part guard_part(const std::string& expires_at_ms);

/// A worker's, whose time to live is over at due_ms.
Part registration_part(const std::string& instance);

/// `more` where both name a column.
Columns merged(Columns columns, const Columns& more);

/// Of a seed, for tables that have the column.
constexpr const char* kInstanceTag = "raw_fields->'tags'->>'cairn.instance_id'";

}  // namespace ff::test
