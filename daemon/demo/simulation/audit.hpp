#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pg/connection.hpp"

namespace ff::simulation {

struct AuditOptions {
  /// Violations listed of each rule; the rest is counted.
  int limit_per_rule = 20;
  /// Every event since the beginning is still there. False where old events are deleted (outbox_retention):
  /// then what is missing at the beginning of a history is forgiven.
  bool whole_outboxes = true;
};

/// What may never be seen, whatever workers, reconcilers and crashes have done: a state that no transition
/// leads to, a lease that its execution does not know of, an execution that ended without its event or with
/// two, a history in which a lease is released twice. Each rule is one query that returns the violations.
///
/// All rules see the same snapshot, so that it can be asked while workers are at work. It reads whole tables.
/// One line per violation: "rule {fp:3}:uuid: what". Throws pg::Error.
std::vector<std::string> audit(pg::Connection& connection, const AuditOptions& options = {});

/// The names of the rules, in the order in which they are asked.
std::vector<std::string_view> audit_rules();

}  // namespace ff::simulation
