#pragma once

#include "check/line.hpp"
#include "migrate/migrate.hpp"
#include "pg/connection.hpp"

/// The schema of FlowFabric's tables. Each function reads only and throws pg::Error.
namespace ff::check {

/// schema: that the session finds one, who made it, and whether it is what the reconcilers need, and would outlive a crash.
Lines schema(pg::Connection& connection, const migrate::State& state);

/// indexes, triggers: those of the contract that are missing.
Lines indexes(pg::Connection& connection);
Lines triggers(pg::Connection& connection);

/// row_triggers: those for each row, and rules, on `tables` (or their hash children) that are not FlowFabric's.
Lines row_triggers(pg::Connection& connection, const std::vector<std::string>& tables);

/// privileges: of `tables` those whose rows row-level security may hide from the role, and who needs to see them all. Empty: none.
Lines row_security(pg::Connection& connection, const std::vector<std::string>& tables, Verdict verdict,
                   std::string_view who);

/// strangers: who may create in the schema of the tables or another one on the path of the role, beside its owner.
Lines strangers(pg::Connection& connection);

}  // namespace ff::check
