#include "status_board.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "support/manual_clock.hpp"

using namespace ff;
using namespace std::chrono_literals;
using daemon::StatusBoard;
using nlohmann::json;
using reconcile::TickReport;
using supervisor::State;

namespace {

constexpr std::int64_t kStart = 1'700'000'000'000;

struct Bench {
  void finished(const std::string& reconciler, const TickReport& report, int failures = 0) {
    board.tick_finished({.reconciler = reconciler,
                         .report = report,
                         .start_delay = {},
                         .duration = {},
                         .consecutive_failures = failures});
  }
  json status() const {
    return json::parse(board.status_json({.idle = 1, .in_use = 2, .size = 3, .waiting = 4}));
  }
  json readiness() const { return json::parse(board.readiness_json()); }

  test::ManualClock clock;
  StatusBoard board{clock};
};

TickReport moved(std::int64_t rows) {
  TickReport report;
  report.complete = true;
  report.scanned = rows + 1;
  report.processed = rows;
  report.outcomes["retried"] = rows;
  report.skipped[reconcile::Skip::locked] = 1;
  report.oldest_due = unix_millis(kStart - 5000);
  report.lateness = {20ms};
  return report;
}

}  // namespace

TEST_CASE("a board that was told nothing is not ready and says why") {
  Bench bench;
  CHECK_FALSE(bench.board.ready());
  CHECK(bench.readiness() ==
        json{{"ready", false}, {"state", "starting"}, {"reasons", {"no answer from the database yet"}}});
  CHECK(bench.status()["reconcilers"] == json::array());
  CHECK(bench.status()["started_at_ms"] == kStart);
}

TEST_CASE("what is paused is shown with who and why, and does not count as faulty") {
  Bench bench;
  bench.finished("lease_expiry", moved(1), 5);
  CHECK(bench.board.has_fault());
  CHECK(bench.status()["reconcilers"][0]["paused"] == false);
  bench.board.pauses_changed({{.reconciler = "*",
                               .by = "anna@bastion",
                               .reason = "index rebuild",
                               .since = unix_millis(kStart),
                               .until = unix_millis(kStart + 1000)}});
  CHECK_FALSE(bench.board.has_fault());
  CHECK(bench.status()["reconcilers"][0]["paused"] == true);
  CHECK(bench.status()["pauses"] == json::array({{{"reconciler", "*"},
                                                  {"by", "anna@bastion"},
                                                  {"reason", "index rebuild"},
                                                  {"since_ms", kStart},
                                                  {"until_ms", kStart + 1000},
                                                  {"next", "ff-reconcilerd resume all"}}}));
  bench.board.pauses_changed({});
  CHECK(bench.board.has_fault());
  CHECK(bench.status()["pauses"] == json::array());
}

TEST_CASE("a hold is shown with the line that releases it, also after a tick that failed") {
  Bench bench;
  TickReport report = moved(0);
  bench.finished("execution_deadline", report);
  CHECK(bench.status()["reconcilers"][0]["hold"].is_null());
  report.hold = {.above = 2, .since = unix_millis(kStart)};
  bench.finished("execution_deadline", report);
  const json hold{{"above", 2},
                  {"since_ms", kStart},
                  {"released", false},
                  {"next", "ff-reconcilerd resume execution_deadline"}};
  CHECK(bench.status()["reconcilers"][0]["hold"] == hold);
  CHECK(bench.status()["reconcilers"][0]["due_capped"] == true);
  TickReport failed;
  failed.failure = pg::Error(pg::Error::Kind::timeout, "too slow");
  bench.finished("execution_deadline", failed, 1);
  CHECK(bench.status()["reconcilers"][0]["hold"] == hold);
  bench.finished("execution_deadline", moved(0));
  CHECK(bench.status()["reconcilers"][0]["hold"].is_null());
}

TEST_CASE("of what is switched off no quarantine is shown, and no row that somebody holds") {
  Bench bench;
  bench.board.reconciler_enabled("lease_expiry", true);
  TickReport report = moved(0);
  report.quarantined = 1;
  report.quarantine_rows = {{.key = {{3}, {"00000000-0000-4000-8000-000000000001", "0"}},
                             .pair = reconcile::find_reconciler("lease_expiry")}};
  report.held = {{.key = {{3}, {"00000000-0000-4000-8000-000000000002", "0"}},
                  .pair = reconcile::find_reconciler("lease_expiry")}};
  bench.finished("lease_expiry", report);
  json line = bench.status()["reconcilers"][0];
  CHECK(line["quarantined"] == 1);
  CHECK(line["quarantine"].size() == 1);
  CHECK(line["held"].size() == 1);
  bench.board.reconciler_enabled("lease_expiry", false);
  line = bench.status()["reconcilers"][0];
  CHECK(line["quarantined"] == 0);
  CHECK(line["quarantine"].empty());
  CHECK(line["held"].empty());
}

TEST_CASE("that what is paused cannot be read is said as long as it is so") {
  Bench bench;
  CHECK(bench.status()["pauses_unread"].is_null());
  bench.board.pauses_unread("no privilege");
  CHECK(bench.status()["pauses_unread"] == "no privilege");
  CHECK(bench.board.snapshot().pauses_unread == "no privilege");
  bench.board.pauses_unread("");
  CHECK(bench.status()["pauses_unread"].is_null());
}

TEST_CASE("readiness follows the state and gives the reason") {
  Bench bench;
  bench.board.state_changed(State::ready, "");
  CHECK(bench.board.ready());
  CHECK(bench.readiness() == json{{"ready", true}, {"state", "ready"}, {"reasons", json::array()}});
  bench.board.state_changed(State::recovering, "");
  CHECK(bench.board.ready());
  for (const State state : {State::unreachable, State::read_only, State::schema_outdated, State::stopping}) {
    bench.board.state_changed(state, "because");
    CHECK_FALSE(bench.board.ready());
    CHECK(bench.readiness() ==
          json{{"ready", false}, {"state", std::string(name(state))}, {"reasons", {"because"}}});
  }
}

TEST_CASE("a reconciler whose ticks fail again and again is a reason, and no more than that") {
  Bench bench;
  bench.board.state_changed(State::ready, "");
  TickReport failed;
  failed.failure.emplace(pg::Error::Kind::server, "permission denied for table ff_attempt", "42501");
  bench.finished("lease_expiry", failed, 2);
  CHECK_FALSE(bench.board.has_fault());
  CHECK(bench.readiness()["reasons"] == json::array());
  bench.finished("lease_expiry", failed, 3);
  CHECK(bench.board.has_fault());
  CHECK(bench.board.ready());
  CHECK(bench.readiness()["reasons"] ==
        json{"lease_expiry: failed 3 times in a row: permission denied for table ff_attempt"});
  bench.finished("lease_expiry", moved(1));
  CHECK_FALSE(bench.board.has_fault());
  CHECK(bench.readiness()["reasons"] == json::array());
}

TEST_CASE("what is not ready has a reason even when nobody gave one") {
  Bench bench;
  bench.board.state_changed(State::unreachable, "");
  CHECK(bench.readiness()["reasons"] == json{"unreachable"});
}

TEST_CASE("a tick between two scans adds to the totals and leaves what the scan saw") {
  Bench bench;
  bench.finished("attempt_timeout", moved(3));
  TickReport foreseen = moved(2);
  foreseen.complete = false;
  foreseen.scanned = 2;
  foreseen.oldest_due = unix_millis(kStart);
  foreseen.next_due = unix_millis(kStart + 700);
  bench.finished("attempt_timeout", foreseen);
  const json line = bench.status()["reconcilers"][0];
  CHECK(line["processed_total"] == 5);
  CHECK(line["due"] == 1);
  CHECK(line["oldest_due_ms"] == kStart - 5000);
  CHECK(line["next_due_ms"] == kStart + 700);
  CHECK(line["last"]["processed"] == 3);
}

TEST_CASE("totals add up over ticks, what is due is of the last scan") {
  Bench bench;
  bench.finished("attempt_timeout", moved(3));
  bench.clock.advance(2s);
  bench.finished("attempt_timeout", moved(2));
  bench.finished("lease_expiry", TickReport{});
  const json status = bench.status();
  REQUIRE(status["reconcilers"].size() == 2);
  const json& line = status["reconcilers"][0];
  CHECK(line["reconciler"] == "attempt_timeout");
  CHECK(line["processed_total"] == 5);
  CHECK(line["errors_total"] == 0);
  CHECK(line["due"] == 1);
  CHECK(line["oldest_due_ms"] == kStart - 5000);
  CHECK(line["next_due_ms"] == nullptr);
  CHECK(line["last_tick_ms"] == kStart + 2000);
  CHECK(line["last_success_ms"] == kStart + 2000);
  CHECK(line["last"] == json{{"scanned", 3},
                             {"processed", 2},
                             {"skipped", {{"locked", 1}, {"no_longer_due", 0}, {"quarantined", 0}}},
                             {"errors", 0},
                             {"outcomes", {{"retried", 2}}}});
  CHECK(bench.board.totals().at("attempt_timeout").outcomes.at("retried") == 5);
}

TEST_CASE("a failure is remembered after the next success, the success before it as well") {
  Bench bench;
  TickReport failed;
  failed.failure.emplace(pg::Error::Kind::timeout, "too slow");
  failed.errors["timeout"] = 1;
  bench.finished("lease_expiry", failed, 1);
  json line = bench.status()["reconcilers"][0];
  CHECK(line["last_success_ms"] == nullptr);
  CHECK(line["last_failure"] == "too slow");
  CHECK(line["consecutive_failures"] == 1);
  CHECK(line["errors_total"] == 1);

  bench.clock.advance(1s);
  bench.finished("lease_expiry", TickReport{});
  line = bench.status()["reconcilers"][0];
  CHECK(line["last_success_ms"] == kStart + 1000);
  CHECK(line["consecutive_failures"] == 0);
  CHECK(line["last_failure"] == "too slow");
}

TEST_CASE("the lateness of the last tick that moved rows outlives idle ticks") {
  Bench bench;
  bench.finished("attempt_timeout", moved(3));
  bench.finished("attempt_timeout", TickReport{});
  CHECK(bench.board.totals().at("attempt_timeout").worst_lateness == 20ms);
}

TEST_CASE("status shows pool and schema as they are") {
  Bench bench;
  CHECK(bench.status()["schema_version"].is_null());
  bench.board.schema_version(6);
  const json status = bench.status();
  CHECK(status["pool"] == json{{"idle", 1}, {"in_use", 2}, {"size", 3}, {"waiting", 4}});
  CHECK(status["schema_version"] == 6);
  CHECK(status["partitions"].is_null());
  bench.board.partitions(cover(PartitionShard{0, 2}, 4));
  CHECK(bench.status()["partitions"] ==
        json{{"count", 4}, {"covered", "0,2"}, {"left_out", "1,3"}, {"not_there", ""}});
}

TEST_CASE("one line says the state, what was moved and why it is not ready") {
  Bench bench;
  bench.board.state_changed(State::ready, "");
  bench.finished("attempt_timeout", moved(3));
  CHECK(bench.board.line() == "ready, 3 rows moved, 0 errors");
  bench.board.state_changed(State::read_only, "a standby");
  CHECK(bench.board.line() == "read_only, 3 rows moved, 0 errors: a standby");
}

TEST_CASE("text from the server that is no UTF-8 does not break the pages") {
  Bench bench;
  bench.board.state_changed(State::unreachable, "bad \xff byte");
  CHECK(bench.readiness()["reasons"].size() == 1);
  CHECK(bench.status()["state"] == "unreachable");
}

TEST_CASE("status shows a tick under way, and what it has found and moved so far") {
  Bench bench;
  bench.board.reconciler_enabled("attempt_timeout", true);
  bench.board.reconciler_enabled("lease_expiry", true);
  CHECK(bench.status()["reconcilers"][0]["running"] == nullptr);
  reconcile::Progress progress;
  bench.board.tick_started({"attempt_timeout", progress});
  bench.clock.advance(3s);
  progress.scanned = 40;
  progress.processed = 30;
  json line = bench.status()["reconcilers"][0];
  CHECK(line["running"] == json{{"since_ms", kStart}, {"scanned", 40}, {"processed", 30}});
  CHECK(line["due"] == 10);
  CHECK(line["due_capped"] == true);
  CHECK(bench.board.snapshot().reconcilers.at("attempt_timeout").running->rows.processed == 30);
  CHECK(bench.status()["reconcilers"][1]["running"] == nullptr);
  CHECK(bench.status()["reconcilers"][1]["due"] == nullptr);
  bench.finished("attempt_timeout", moved(40));
  line = bench.status()["reconcilers"][0];
  CHECK(line["running"] == nullptr);
  CHECK(line["due"] == 1);
  CHECK(line["due_capped"] == false);
}

TEST_CASE("in the middle of a backlog what is left is not nothing, but at least one row") {
  Bench bench;
  TickReport report = moved(1000);
  report.scanned = 1000;
  report.more = true;
  bench.finished("attempt_timeout", report);
  json line = bench.status()["reconcilers"][0];
  CHECK(line["due"] == 1);
  CHECK(line["due_capped"] == true);
  report.more = false;
  bench.finished("attempt_timeout", report);
  line = bench.status()["reconcilers"][0];
  CHECK(line["due"] == 0);
  CHECK(line["due_capped"] == false);
  CHECK(line["oldest_due_ms"] == nullptr);
  // The companions have a scan of their own, and their backlog is not over because the first pair has none.
  TickReport companions;
  companions.more = true;
  companions.companions_more = true;
  bench.finished("attempt_timeout", companions);
  bench.finished("attempt_timeout", report);
  line = bench.status()["reconcilers"][0];
  CHECK(line["due"] == 1);
  CHECK(line["due_capped"] == true);
  companions.more = false;
  companions.companions_more = false;
  bench.finished("attempt_timeout", companions);
  CHECK(bench.status()["reconcilers"][0]["due"] == 0);
}

TEST_CASE("status says until when no row falls due, unless a backlog hides it") {
  Bench bench;
  TickReport report = moved(1);
  report.all_known_until = unix_millis(kStart + 2000);
  bench.finished("attempt_timeout", report);
  CHECK(bench.status()["reconcilers"][0]["next_due_known_until_ms"] == kStart + 2000);
  report.paged = true;
  bench.finished("attempt_timeout", report);
  CHECK(bench.status()["reconcilers"][0]["next_due_known_until_ms"] == nullptr);
  report.paged = false;
  report.all_known_until = UnixMillis{};
  bench.finished("attempt_timeout", report);
  CHECK(bench.status()["reconcilers"][0]["next_due_known_until_ms"] == nullptr);
}

TEST_CASE("what one that is paused saw before says nothing of the present") {
  Bench bench;
  TickReport report = moved(3);
  report.next_due = report.all_known_until = unix_millis(kStart + 2000);
  bench.finished("attempt_timeout", report);
  bench.finished("lease_expiry", report);
  bench.board.pauses_changed({{.reconciler = "attempt_timeout",
                               .by = "anna",
                               .reason = "x",
                               .since = unix_millis(kStart),
                               .until = {}}});
  const json status = bench.status();
  for (const char* key : {"due", "oldest_due_ms", "next_due_ms", "next_due_known_until_ms"}) {
    CAPTURE(key);
    CHECK(status["reconcilers"][0][key] == nullptr);
    CHECK(status["reconcilers"][1][key] != nullptr);
  }
}

TEST_CASE("status says until when it is recovering") {
  const Bench bench;
  CHECK(bench.status()["recovering_until_ms"] == nullptr);
  CHECK(json::parse(bench.board.status_json({}, unix_millis(kStart + 5000)))["recovering_until_ms"] ==
        kStart + 5000);
}
