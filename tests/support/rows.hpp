#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "pg/connection.hpp"

/// Rows for tests. What a test does not name has a sound default, so that it shows only what it is about:
///
///     const Uuid id = insert_core(db, {.partition = {3}, .state = active(), .policy = max_retries(1)});
///     insert_attempt(db, {.partition = {3}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1});
namespace ff::test {

using Json = nlohmann::json;

/// A random one.
Uuid new_uuid();
/// By the database's clock.
std::int64_t now_ms(pg::Connection& connection);

/// The five words of an execution's state, as they belong together.
struct State {
  std::string lifecycle_phase;
  std::string ownership_state;
  std::string eligibility_state;
  std::string public_state;
  std::string attempt_state;
};
State runnable();
State active();
State delayed();
State suspended();
State blocked();
State submitted();
/// `public_state`: completed, failed, expired, skipped or cancelled.
State terminal(const std::string& public_state = "completed");
/// Ended as well: with "cancelled" for its lifecycle_phase.
State cancelled();

struct CoreRow {
  PartitionKey partition{};
  Uuid execution = new_uuid();
  std::optional<Uuid> flow{};
  State state = active();
  std::string lane = "default";
  int attempt_index = 0;
  int priority = 0;
  std::int64_t created_at_ms = 1'700'000'000'000;
  std::optional<std::int64_t> terminal_at_ms{};
  std::optional<std::int64_t> deadline_at_ms{};
  Json policy{};  ///< null unless given
  Json raw_fields = Json::object();
};

struct AttemptRow {
  PartitionKey partition{};
  Uuid execution{};
  int attempt_index = 0;
  std::string worker_id = "w1";
  std::int64_t lease_epoch = 1;
  std::optional<std::int64_t> lease_expires_at_ms{};
  std::optional<std::int64_t> started_at_ms = 1'700'000'000'000;
  std::optional<std::int64_t> terminal_at_ms{};
  std::optional<std::string> outcome{};
  Json raw_fields = Json::object();
};

struct SuspensionRow {
  PartitionKey partition{};
  Uuid execution{};
  Uuid suspension = new_uuid();
  std::int64_t suspended_at_ms = 1'700'000'000'000;
  std::optional<std::int64_t> timeout_at_ms{};
  std::optional<std::string> timeout_behavior{};
  Json member_map = Json::object();
};

struct WaitpointRow {
  PartitionKey partition{};
  Uuid waitpoint = new_uuid();
  Uuid execution{};
  std::optional<std::int64_t> expires_at_ms{};
  std::string waitpoint_key{};
};

/// Each returns the execution's id (the waitpoint's the waitpoint's).
Uuid insert_core(pg::Connection& connection, const CoreRow& row);
Uuid insert_attempt(pg::Connection& connection, const AttemptRow& row);
Uuid insert_suspension(pg::Connection& connection, const SuspensionRow& row);
Uuid insert_waitpoint(pg::Connection& connection, const WaitpointRow& row);

/// Any row of any table; columns that are not named get their defaults:
/// insert(db, "ff_edge_group", {{"partition_key", 3}, {"policy", {{"kind", "all_of"}}}, …}). A uuid is
/// given as text.
void insert(pg::Connection& connection, std::string_view table, const Json& columns);

/// {"retry_policy": {"max_retries": n}}
Json max_retries(std::int64_t n);
/// raw_fields of an execution with a namespace and the tag cairn.instance_id.
Json origin(const std::string& name_space, const std::string& instance_tag);

/// Every row of a table as one line of JSON, in a fixed order: compare whole tables, so that a neighbour that
/// changed is seen as well.
std::vector<std::string> snapshot(pg::Connection& connection, std::string_view table);
/// The same over all tables that reconcilers touch; each line begins with its table's name.
std::vector<std::string> snapshot(pg::Connection& connection);
/// What has gone ("- …") and what has come ("+ …"). A changed row is both.
std::vector<std::string> diff(const std::vector<std::string>& before, const std::vector<std::string>& after);
/// Of such changes those that are not about this execution: lines that do not name it.
std::vector<std::string> beside(const Uuid& execution, std::vector<std::string> changes);

/// The single row of a query as JSON: row(db, "SELECT * FROM ff_exec_core WHERE …")["public_state"]. Throws
/// when there are none or several.
Json row(pg::Connection& connection, const std::string& query, const pg::Params& params = {});
/// The core row and attempt row of an execution; throws when there is none.
Json core(pg::Connection& connection, const Uuid& execution);
Json attempt(pg::Connection& connection, const Uuid& execution, int attempt_index = 0);

}  // namespace ff::test
