#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pg/connection.hpp"

namespace ff::test {

using Json = nlohmann::json;

/// Everything that stands about one execution.
struct ExecutionRows {
  Json core;
  std::map<int, Json> attempts;
  Json suspension;  ///< null: none
  Json group;       ///< that it is downstream of; null: none
  std::vector<Json> waitpoints;
  std::vector<Json> grants;
  Json cancel;                    ///< of its flow, of which its row in the backlog is left; null: none
  std::string flow_policy;        ///< under which its flow was cancelled; empty: it was not
  std::vector<Json> ends;         ///< completion events that say an end, in their order
  std::int64_t lease_events = 0;  ///< that say a lease's end: expired, revoked
  std::optional<std::int64_t> replayed_at_ms;

  std::string text(std::string_view column) const;
  std::optional<std::int64_t> moment(std::string_view column) const;
  bool ended() const;
  /// The end of the present run was told.
  bool told() const;
  /// Its flow's cancel has ended it, and who works off the backlog has still to tell of it.
  bool to_be_told() const;
  /// As the documentation has it: of an active one the greatest index that holds a lease, else the greatest.
  std::optional<int> current_attempt() const;
  std::optional<std::int64_t> lease_of(int attempt) const;
  bool live_grant(std::string_view kind, std::int64_t now_ms) const;
  /// "active/leased/…", for people.
  std::string state() const;
};

/// All that a history has made, at one moment of the database's clock. Executions go by their uuid.
struct Snapshot {
  std::int64_t now_ms = 0;
  std::map<std::string, ExecutionRows> executions;
  std::map<std::string, Json> groups;  ///< by downstream
  std::vector<Json> edges;
  std::int64_t undispatched = 0;
  std::vector<Json> budgets;            ///< rows of usage with `spent`, the sum of the ledger by execution
  std::map<std::string, Json> workers;  ///< that are registered, by instance
  std::int64_t backlogs = 0;            ///< cancelled flows that are not worked off
  std::int64_t sweeps = 0;              ///< events that say that one was swept away

  /// The downstream of an applied edge still waits for the end of its upstream, and no operator has replayed it since.
  bool waits(const Json& edge) const;
  /// Its group has not counted an end of the upstream yet.
  bool misses(const Json& edge) const;
  /// Somebody who waits misses its end.
  bool is_waited_for(const std::string& execution) const;
};

Snapshot read_snapshot(pg::Connection& connection);
/// The same for one execution; its groups and edges are left out.
ExecutionRows read_rows(pg::Connection& connection, const std::string& uuid);

}  // namespace ff::test
