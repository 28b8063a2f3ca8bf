// Histories let time pass by making the database older: nothing that says when may be forgotten.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "histories/ageing.hpp"
#include "support/engine.hpp"
#include "support/flowfabric.hpp"

using namespace ff;
using namespace ff::test;

namespace {

// Tables that no operation of a history writes, or whose moments nobody reads.
const std::set<std::string> kTimeless{
    "ff_cancel_dispatch_outbox", "ff_flow_summary",   "ff_lane_registry",
    "ff_migration_annotation",   "ff_stream_frame",   "ff_stream_meta",
    "ff_stream_summary",         "ff_waitpoint_hmac", "ff_worker_registry_event"};

// What `migrate up` adds is ours: a test before this one may have left it here.
constexpr const char* kColumns = R"sql(
SELECT c.table_name::text, c.column_name::text
  FROM information_schema.columns c
  JOIN pg_class t ON t.relname = c.table_name AND t.relnamespace = 'public'::regnamespace AND NOT t.relispartition
 WHERE c.table_schema = 'public' AND starts_with(c.table_name, 'ff_') AND NOT starts_with(c.table_name, 'ff_reconciler_')
   AND c.column_name LIKE '%\_ms')sql";

bool is_known(const std::string& table, const std::string& column) {
  const auto found =
      std::find_if(moments().begin(), moments().end(), [&](const Moments& of) { return of.table == table; });
  if (found == moments().end()) return kTimeless.contains(table);
  const auto has = [&](const auto& columns) {
    return std::find(columns.begin(), columns.end(), column) != columns.end();
  };
  return has(found->columns) || has(found->left);
}

}  // namespace

TEST_CASE("every moment of FlowFabric's schema grows older when time passes") {
  FlowFabricDatabase database;
  auto connection = database.connect();
  for (const pg::Row row : connection.execute(kColumns)) {
    INFO(row.get<std::string>(0) << '.' << row.get<std::string>(1));
    CHECK(is_known(row.get<std::string>(0), row.get<std::string>(1)));
  }
}

TEST_CASE("a lease and a moment inside JSON grow older by as much as is said") {
  FlowFabricDatabase database;
  FlowFabric& flowfabric = database.flowfabric();
  auto connection = database.connect();
  flowfabric.call("create_execution", {{"partition", 1}, {"runnable", "pending"}});
  flowfabric.call("claim", {{"as", "h"}});
  flowfabric.call("fail_execution", {{"handle", "h"}, {"max_retries", 1}, {"backoff_ms", 60'000}});
  const char* sum =
      "SELECT (raw_fields->>'delay_until')::bigint + created_at_ms FROM ff_exec_core WHERE partition_key = 1";
  const auto before = number(connection, sum);
  age(connection, 1000);
  CHECK(before - number(connection, sum) == 2000);
}
