// Rows that tick after tick somebody else holds: who it is, as far as the role may see it.
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>

#include "migrate/migrate.hpp"
#include "reconcile/held_rows.hpp"
#include "support/engine.hpp"
#include "support/log_capture.hpp"
#include "testserver/private_server.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using reconcile::HeldRow;
using reconcile::TickReport;

namespace {

/// A lapsed lease that another session holds.
struct HeldLease {
  const Database database;
  pg::Connection db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}});
  pg::Connection somebody = database.connect();
  int pid = 0;

  HeldLease() {
    somebody.execute("SET application_name = 'some worker'");
    hold("BEGIN");
    hold("SELECT FROM ff_attempt WHERE execution_id = '" + to_string(id) + "' FOR UPDATE");
    pid = somebody.execute("SELECT pg_backend_pid()").one().get<std::int32_t>(0);
  }
  void hold(const std::string& sql) { somebody.execute(sql); }
};

std::string text_of(const LogCapture& log) {
  std::string text;
  for (const std::string& line : log.lines()) text += line + "\n";
  return text;
}

/// Told of each row that is held.
class Slow final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit Slow(std::function<void()> takes_time) : takes_time_(std::move(takes_time)) {}
  int lines = 0;

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (std::string_view(message.payload.data(), message.payload.size()).find("has been held") ==
        std::string_view::npos)
      return;
    ++lines;
    takes_time_();
  }
  void flush_() override {}
  std::function<void()> takes_time_;
};

/// Scans, a second after the last tick.
TickReport tick(EngineFixture& engine) {
  engine.clock().advance(1s);
  return engine->tick();
}

/// The third tick in a row that finds rows held.
TickReport third_tick(EngineFixture& engine) {
  tick(engine);
  CHECK(tick(engine).held.empty());
  return tick(engine);
}

}  // namespace

TEST_CASE("a row that is held in three ticks in a row is told of with who holds it, until it is free") {
  HeldLease held;
  EngineFixture engine(held.database, "lease_expiry");
  const LogCapture log;
  const std::int64_t before = now_ms(held.db) - 60'000;
  const TickReport report = third_tick(engine);
  CHECK_FALSE(report.failure);
  REQUIRE(report.held.size() == 1);
  const HeldRow& row = report.held.front();
  CHECK(row.key == attempt_key({3}, held.id));
  CHECK(row.execution == ExecutionId{{3}, held.id});
  CHECK(row.ticks == 3);
  CHECK(row.held_for == 2s);
  REQUIRE(row.holders.size() == 1);
  CHECK(row.holders.front().table == "ff_attempt");
  CHECK(row.holders.front().pid == held.pid);
  CHECK(row.holders.front().application == "some worker");
  CHECK(row.holders.front().state == "idle in transaction");
  REQUIRE(row.holders.front().since);
  CHECK(*row.holders.front().since > unix_millis(before));
  tick(engine);
  CHECK_THAT(text_of(log), Contains("has been held for 2.0 s by pid " + std::to_string(held.pid) +
                                    " (some worker, idle in transaction) in ff_attempt"));
  CHECK_THAT(text_of(log), Contains("{fp:3}:" + to_string(held.id)));

  held.hold("ROLLBACK");
  const TickReport later = tick(engine);
  CHECK(later.processed == 1);
  CHECK(later.held.empty());
  const std::string said = text_of(log);
  CHECK_THAT(said, Contains("no longer held"));
  CHECK(said.find("has been held") == said.rfind("has been held"));
}

TEST_CASE("a row that was free in between is not told of until it was held three times again") {
  HeldLease held;
  EngineFixture engine(held.database, "lease_expiry");
  tick(engine);
  tick(engine);
  held.hold("ROLLBACK");
  CHECK(tick(engine).processed == 1);
  const Uuid id = held.id;
  held.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = 1");
  held.db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'active', ownership_state = 'leased'");
  held.hold("BEGIN");
  held.hold("SELECT FROM ff_attempt WHERE execution_id = '" + to_string(id) + "' FOR UPDATE");
  CHECK(third_tick(engine).held.size() == 1);
}

TEST_CASE("a role without pg_read_all_stats sees who holds a row, and not since when") {
  HeldLease held;
  held.db.execute_script(
      "CREATE ROLE plain; GRANT SELECT, UPDATE, INSERT ON ALL TABLES IN SCHEMA public TO plain");
  {
    EngineFixture engine(held.database, "lease_expiry");
    engine.pool().acquire()->execute("SET ROLE plain");
    const TickReport report = third_tick(engine);
    CHECK_FALSE(report.failure);
    REQUIRE(report.held.size() == 1);
    REQUIRE(report.held.front().holders.size() == 1);
    CHECK(report.held.front().holders.front().pid == held.pid);
    CHECK(report.held.front().holders.front().state.empty());
    CHECK_FALSE(report.held.front().holders.front().since);
  }
  held.db.execute_script("DROP OWNED BY plain; DROP ROLE plain");
}

TEST_CASE("where nobody may see locks the row is told of all the same, and the tick goes on") {
  HeldLease held;
  insert_lapsed(held.db, {.partition = {3}});  // free
  held.db.execute_script(
      "CREATE ROLE plain; GRANT SELECT, UPDATE, INSERT ON ALL TABLES IN SCHEMA public TO plain;"
      "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO plain;"
      "REVOKE SELECT ON pg_catalog.pg_locks FROM PUBLIC");
  {
    EngineFixture engine(held.database, "lease_expiry");
    engine.pool().acquire()->execute("SET ROLE plain");
    const TickReport first = tick(engine);
    CHECK(first.processed == 1);
    tick(engine);
    const TickReport report = tick(engine);
    CHECK_FALSE(report.failure);
    CHECK(report.errors.empty());
    REQUIRE(report.held.size() == 1);
    CHECK(report.held.front().holders.empty());
  }
  held.db.execute_script("DROP OWNED BY plain; DROP ROLE plain");
}

TEST_CASE("of many rows that one session holds a few are told of, those that have waited longest") {
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 300, .partitions = {{3}}});
  auto somebody = database.connect();
  somebody.execute("BEGIN");
  somebody.execute("SELECT FROM ff_attempt FOR UPDATE");
  EngineFixture engine(database, "lease_expiry");
  const TickReport report = third_tick(engine);
  CHECK(report.skipped == decltype(report.skipped){{reconcile::Skip::locked, 300}});
  CHECK(report.held.size() == reconcile::HeldRows::kMostTold);
  for (const HeldRow& row : report.held) CHECK(row.holders.size() == 1);
}

TEST_CASE("a tick does not look for longer because more rows are held") {
  HeldLease held;
  for (int i = 0; i < 2; ++i) insert_lapsed(held.db, {.partition = {3}});
  held.hold("SELECT FROM ff_attempt FOR UPDATE");
  EngineFixture engine(held.database, "lease_expiry");
  const LogCapture log(spdlog::level::info);
  // What is told of a row takes the time that is for all.
  const auto slow = std::make_shared<Slow>([&] { engine.clock().advance(600ms); });
  spdlog::default_logger()->sinks().push_back(slow);
  third_tick(engine);
  CHECK(slow->lines == 1);
  engine.clock().advance(reconcile::HeldRows::kInspectEvery);
  tick(engine);
  CHECK(slow->lines == 2);
}

TEST_CASE("a dry run remembers no row that is held") {
  HeldLease held;
  EngineFixture engine(held.database, "lease_expiry");
  for (int i = 0; i < 4; ++i) CHECK(engine->tick({.dry_run = true}).held.empty());
}

TEST_CASE("a prepared transaction that holds a row is named, though it has no session") {
  const testserver::PrivateServer server({.settings = {{"max_prepared_transactions", "1"}}});
  const pg::Connector connector({.conninfo = server.conninfo()});
  auto db = connector.connect(Clock::system().now() + 10s);
  migrate::up(db, Database::kFanOut);
  const Uuid id = insert_lapsed(db, {.partition = {3}});
  auto somebody = connector.connect(Clock::system().now() + 10s);
  somebody.execute("BEGIN");
  somebody.execute("SELECT FROM ff_attempt WHERE execution_id = $1 FOR UPDATE", pg::Params::of(id));
  somebody.execute("PREPARE TRANSACTION 'half done'");
  pg::Transaction transaction(db);
  const auto holders = reconcile::holders_of(transaction, {{3}, id}, {{"ff_attempt", "SELECT, UPDATE"}});
  REQUIRE(holders.size() == 1);
  CHECK(holders.front().pid == 0);
  CHECK(holders.front().application == "half done");
  CHECK(holders.front().state == "prepared");
  CHECK(holders.front().since);
}
