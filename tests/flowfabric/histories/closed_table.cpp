#include "histories/closed_table.hpp"

#include <future>
#include <stdexcept>

#include "support/process.hpp"

namespace ff::test {
namespace {

constexpr std::string_view kWaiting = R"sql(
SELECT pid FROM pg_stat_activity
 WHERE datname = current_database() AND application_name = $1 AND wait_event_type = 'Lock')sql";
constexpr std::string_view kWaits =
    "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'";
constexpr std::string_view kThere =
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1";
constexpr std::string_view kTerminate = "SELECT pg_terminate_backend($1)";

void close(pg::Connection& connection, const std::string& table) {
  connection.execute("BEGIN");
  connection.execute("LOCK TABLE " + table + " IN SHARE MODE");
}

void wait_for(const char* what, const std::function<bool()>& holds) {
  if (!wait_until(holds)) throw std::runtime_error(std::string("waited in vain for ") + what);
}

}  // namespace

ClosedTable::ClosedTable(const FlowFabricDatabase& database, std::string table)
    : database_(database),
      table_(std::move(table)),
      holder_(database.connect()),
      watcher_(database.connect()) {
  close(holder_, table_);
}

bool ClosedTable::waits(const char* program, const std::function<bool()>& ended) {
  bool waits = false;
  wait_for("a turn to end, or to be stopped", [&] {
    waits = !watcher_.execute(kWaiting, pg::Params::of(program)).empty();
    return waits || ended();
  });
  return waits;
}

// Locks are granted in the order of asking: ours stands behind the one who waits, and before its next transaction.
void ClosedTable::let_one_through() {
  pg::Connection next = database_.connect();
  const auto pid = next.execute("SELECT pg_backend_pid()").one().get<std::int32_t>(0);
  auto closed = std::async(std::launch::async, [&] { close(next, table_); });
  wait_for("a lock to queue", [&] { return !watcher_.execute(kWaits, pg::Params::of(pid)).empty(); });
  open();
  closed.get();
  holder_ = std::move(next);
}

void ClosedTable::end_sessions_of(const char* program) {
  for (const pg::Row row : watcher_.execute(kThere, pg::Params::of(program)))
    watcher_.execute(kTerminate, pg::Params::of(row.get<std::int32_t>(0)));
}

void ClosedTable::until_gone(const char* program) {
  wait_for("sessions to go", [&] { return watcher_.execute(kThere, pg::Params::of(program)).empty(); });
}

}  // namespace ff::test
