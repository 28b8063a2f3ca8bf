// The status page, from what the daemon knows to the markup.
#include <catch2/catch.hpp>

#include "page/page.hpp"
#include "page/sections.hpp"
#include "reconcile/candidate.hpp"
#include "reconcile/family/registry.hpp"
#include "support/well_formed.hpp"

using namespace ff;
using namespace ff::daemon::page;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using daemon::StatusBoard;
using supervisor::State;

namespace {

constexpr UnixMillis kNow = unix_millis(1'700'000'000'000);
const std::string kId = "0190c5a4-7f3e-7b1a-9c2d-3e4f5a6b7c8d";

/// A daemon for which all is well, over so many partitions.
Model calm(int partitions = 256) {
  Model model;
  model.now = kNow;
  model.version = "1.2.3";
  model.address = "http://127.0.0.1:9464";
  model.database = "ff@db1:5432/flowfabric";
  model.board.state = State::ready;
  model.board.started_at = kNow - 2h;
  model.board.coverage = cover(AllPartitions{}, partitions);
  model.state_since = kNow - 1h;
  model.pool = {.idle = 2, .in_use = 1, .size = 8, .waiting = 0};
  model.configuration = "threads: 4\n";
  for (const reconcile::Reconciler& reconciler : reconcile::registry()) {
    StatusBoard::Entry seen;
    seen.last_tick = seen.last_scan = kNow - 1s;
    seen.last.complete = true;
    seen.last.database_time = kNow - 1s;
    model.reconcilers.push_back({.name = std::string(reconciler.name), .seen = seen});
  }
  return model;
}

ReconcilerView& of(Model& model, std::string_view name) {
  return *std::ranges::find(model.reconcilers, name, &ReconcilerView::name);
}

reconcile::QuarantinedRow quarantined(const std::string& message, const std::string& execution = kId) {
  const reconcile::Reconciler* pair = reconcile::find_reconciler("lease_expiry");
  const reconcile::RowKey key{{3}, {execution, "0"}};
  return {.key = key,
          .pair = pair,
          .execution = reconcile::execution_of(*pair, key),
          .tries = 2,
          .sqlstate = "23514",
          .message = message,
          .next_try_in = 8s};
}

/// The page, which is checked to be well-formed.
std::string page_of(const Model& model) {
  std::string text = render(model, "1234");
  CHECK(test::malformed(text).empty());
  return text;
}

std::size_t times(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("where all is well the page says so, names every reconciler, and offers nothing to paste") {
  const Model model = calm();
  CHECK(needs_attention(model).empty());
  const std::string page = page_of(model);
  CHECK_THAT(page, Contains("Nothing. What is due of the reconcilers that are on is being moved.") &&
                       !Contains("class=\"paste\"") && !Contains("id=\"quarantine\"") &&
                       Contains("256 of 256") && Contains("1.2.3"));
  for (const reconcile::Reconciler& reconciler : reconcile::registry())
    CHECK_THAT(page, Contains("<th scope=\"row\">" + std::string(reconciler.name) + "</th>"));
  CHECK_THAT(page, !Contains("<script") && !Contains("http-equiv") && !Contains(" style="));
}

TEST_CASE("a daemon that has heard of nothing yet has a page") {
  Model model;
  model.now = kNow;
  model.reconcilers.push_back({.name = "lease_expiry", .seen = {}});
  model.reconcilers.push_back({.name = "outbox_retention", .enabled = false, .seen = {}});
  CHECK_THAT(page_of(model), Contains("Not ready: starting") && Contains("not yet run") &&
                                 Contains("</span> off<") && Contains("Not counted yet"));
}

TEST_CASE("whatever text comes from outside is escaped wherever it stands") {
  const std::string evil = "\"'><script>alert(1)</script>&amp;\x1b[2J\xff\n<h1>";
  Model model = calm();
  model.database = model.version = model.address = model.board.reason = evil;
  model.configuration = "a: " + evil + "\nb: 1\n";
  model.wanting_restart = {evil};
  model.events.push_back({kNow, kNow, 3, Severity::problem, evil, evil});
  ReconcilerView& view = of(model, "lease_expiry");
  view.seen->consecutive_failures = 3;
  view.seen->last_failure = evil;
  view.seen->last.quarantined = 1;
  view.seen->last.quarantine_rows = {quarantined(evil, evil)};
  view.seen->last.quarantine_rows[0].sqlstate = evil;
  model.board.pauses = {{evil, evil, evil, kNow, {}}};
  model.board.pauses_unread = evil;
  of(model, "dependency").seen->last.held = {
      {.key = {{3}, {kId, evil}},
       .pair = reconcile::find_reconciler("dependency"),
       .execution = std::nullopt,
       .holders = {{.table = evil, .pid = 4711, .application = evil, .state = evil}}}};
  for (const bool renewed : {false, true}) {
    if (renewed) model.renewed_every = 10s;
    const std::string page = page_of(model);
    CHECK_THAT(page, !Contains("<script") && !Contains("\x1b") && !Contains("\xff") && !Contains("<h1>&") &&
                         Contains("&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;"));
    CHECK(times(page, "<h1>") == 1);
    CHECK_THAT(page, Contains("pid 4711 (") && Contains("is paused") && Contains("paused cannot be read"));
  }
}

TEST_CASE("what goes into a shell comes from a uuid, and from no other text") {
  CHECK(commands_for("lease_expiry", quarantined("")) ==
        std::vector<std::string>{"ff-reconcilerd explain '{fp:3}:" + kId + "'",
                                 "ff-reconcilerd tick lease_expiry --execution '{fp:3}:" + kId + "'"});
  CHECK(commands_for("lease_expiry", quarantined("", "'; rm -rf /; '")).empty());
}

TEST_CASE("a row in quarantine shows key, SQLSTATE, message, tries and what to paste") {
  Model model = calm();
  ReconcilerView& view = of(model, "lease_expiry");
  view.seen->last.quarantined = 1;
  view.seen->last.quarantine_rows = {quarantined("new row violates a check")};
  const auto attention = needs_attention(model);
  REQUIRE(attention.size() == 1);
  CHECK(attention[0].severity == Severity::warning);
  CHECK(attention[0].what == "lease_expiry: 1 row is in quarantine because it fails by itself");
  CHECK(attention[0].why == "new row violates a check (SQLSTATE 23514 check_violation)");
  CHECK(attention[0].paste.front() == "ff-reconcilerd quarantine --url http://127.0.0.1:9464");
  CHECK_THAT(page_of(model), Contains("id=\"quarantine\"") && Contains("23514") &&
                                 Contains("failed 2 times") &&
                                 Contains("explain &#39;{fp:3}:" + kId + "&#39;"));
  view.seen->last.quarantined = 2;
  CHECK(needs_attention(model)[0].what ==
        "lease_expiry: 2 rows are in quarantine because each fails by itself");
}

TEST_CASE("of ten thousand rows in quarantine a hundred are shown, and the page stays small") {
  constexpr std::size_t kReconcilers = 12;
  Model model = calm(1024);
  REQUIRE(model.reconcilers.size() > kReconcilers);
  for (ReconcilerView& view : model.reconcilers) {
    view.seen->last.quarantined = 10'000;
    view.seen->last.quarantine_rows.assign(100, quarantined(std::string(1024, '<')));
    for (int partition = 0; partition < 1024; ++partition)
      view.seen->last.oldest_due_in[{static_cast<std::int16_t>(partition)}] = kNow - 1h;
    view.seen->last.oldest_due = kNow - 1h;
    view.seen->totals.due = 10'000;
    view.seen->last_failure = std::string(1024, '"');
    view.seen->consecutive_failures = 5;
    for (auto& step : view.history) step = {1'000'000, 3600s};
  }
  model.events.assign(Chronicle::kMostEvents,
                      {kNow, kNow, 9, Severity::problem, "daemon", std::string(1024, '&')});
  const std::size_t size_of_all = page_of(model).size();
  const std::size_t others = model.reconcilers.size() - kReconcilers;
  model.reconcilers.resize(kReconcilers);
  const std::string page = page_of(model);
  CHECK(times(page, "explain &#39;{fp:3}:") == 100 + kReconcilers);
  CHECK_THAT(page, Contains("119,900 more are not shown"));
  CHECK(page.size() < 600 * 1024);
  CHECK(size_of_all < page.size() + others * 16 * 1024);
}

TEST_CASE("problems come before warnings, and the worst colours the banner") {
  Model model = calm();
  model.pool.waiting = 1;
  CHECK_THAT(page_of(model), Contains("<header class=\"warning\">") &&
                                 Contains("1 tick waits for a connection") && Contains("<title>1 warning ·"));
  of(model, "budget_reset").seen->consecutive_failures = 3;
  of(model, "budget_reset").seen->last_failure = "permission denied for table ff_budget_policy";
  const auto attention = needs_attention(model);
  REQUIRE(attention.size() == 2);
  CHECK(attention[0].what == "budget_reset: failed 3 times in a row");
  CHECK(attention[0].why == "permission denied for table ff_budget_policy");
  CHECK_THAT(page_of(model), Contains("<header class=\"problem\">"));
}

TEST_CASE("a reconciler is late when its oldest row has waited long, and not for rows in quarantine") {
  Model model = calm();
  ReconcilerView& view = of(model, "attempt_timeout");
  view.seen->totals.due = 12'345;
  view.seen->last.oldest_due = kNow - 20s;
  CHECK(needs_attention(model).empty());
  view.seen->last.oldest_due = kNow - 3min;
  CHECK(needs_attention(model).at(0).what ==
        "attempt_timeout is late: its oldest due row has waited for 3 m");
  CHECK_THAT(page_of(model), Contains("12,345"));
  view.seen->last.oldest_due = kNow - 6min;
  CHECK(needs_attention(model).at(0).severity == Severity::problem);
  view.seen->totals.due = 2;
  view.seen->last.quarantined = 2;
  CHECK(needs_attention(model).size() == 1);
  CHECK_THAT(needs_attention(model)[0].what, Contains("in quarantine"));
  // Beside them there are others: those in other partitions can be told apart.
  view.seen->totals.due = 4;
  view.seen->last.quarantine_rows = {quarantined("x")};
  view.seen->last.oldest_due_in = {{{3}, kNow - 6min}, {{4}, kNow - 10s}};
  CHECK(needs_attention(model).size() == 1);
  view.seen->last.oldest_due_in[{4}] = kNow - 2min;
  CHECK(needs_attention(model).at(1).what ==
        "attempt_timeout is late: its oldest due row has waited for 2 m");
  view.enabled = false;
  CHECK(needs_attention(model).empty());
}

TEST_CASE("each state that is not ready is a problem with its reason") {
  for (const State state : {State::starting, State::unreachable, State::read_only, State::schema_outdated}) {
    Model model = calm();
    model.board.state = state;
    model.board.reason = "connection refused";
    const auto attention = needs_attention(model);
    REQUIRE(attention.size() == 1);
    CHECK(attention[0].severity == Severity::problem);
    CHECK(attention[0].why == "connection refused");
    CHECK_THAT(page_of(model), Contains("<dt>ready</dt><dd>no</dd>") && Contains(std::string(name(state))));
  }
}

TEST_CASE("recovering says until when, and never names a time that is over") {
  Model model = calm();
  model.board.state = State::recovering;
  model.state_since = kNow - 1h;
  model.recovering_until = kNow + 15s;
  CHECK(needs_attention(model).at(0).what == "Recovering: no lease is taken until 22:13:35 UTC");
  for (const std::optional<UnixMillis> over : {std::optional(kNow), std::optional<UnixMillis>{}}) {
    model.recovering_until = over;
    CHECK(needs_attention(model).at(0).what ==
          "Recovering: leases are taken as soon as the database has been checked again");
  }
}

TEST_CASE("the page says what a tick that takes long has moved, and how far ahead nothing falls due") {
  Model model = calm();
  ReconcilerView& view = of(model, "attempt_timeout");
  view.running = daemon::StatusBoard::Running{kNow - 12s, {20'000, 12'345}};
  view.seen->last.all_known_until = kNow + 19s;
  CHECK_THAT(page_of(model), Contains("runs for 12.0 s, 12,345 moved") && Contains(">7,655+<") &&
                                 Contains("none for 19.0 s"));
  view.running->since = kNow - 100ms;
  view.seen->last.paged = true;
  CHECK_THAT(page_of(model), !Contains("runs for") && !Contains("none for 19.0 s"));
  view.running.reset();
  view.seen->companions_more = true;
  CHECK_THAT(page_of(model), Contains(">1+<"));
}

TEST_CASE("the heat map has a cell a partition, and shares cells where there are very many") {
  const auto cells = [](const Model& model) { return times(partition_map(model), "<i"); };
  const std::size_t legend = 6;
  CHECK(cells(calm(3)) == 3 + legend);
  CHECK(cells(calm(256)) == 256 + legend);
  CHECK(cells(calm(1024)) == 1024 + legend);
  CHECK(cells(calm(32767)) == 1024 + legend);
  Model model = calm();
  model.board.coverage = cover(PartitionShard{0, 2}, 256);
  CHECK(times(partition_map(model), "<i class=\"out\">") == 128 + 1);
}

TEST_CASE(
    "a paused reconciler is said to be paused, with the line that lifts it, and neither late nor failing") {
  Model model = calm();
  ReconcilerView& view = of(model, "lease_expiry");
  view.paused = true;
  view.seen->consecutive_failures = 3;
  view.seen->totals.due = 10;
  view.seen->last.oldest_due = kNow - 1h;
  model.board.pauses = {{"lease_expiry", "anna@bastion", "index <rebuild>", kNow - 1h, {}}};
  const auto attention = needs_attention(model);
  REQUIRE(attention.size() == 1);
  CHECK(attention[0].what == "lease_expiry is paused");
  CHECK(attention[0].paste == std::vector<std::string>{"ff-reconcilerd resume lease_expiry"});
  CHECK_THAT(page_of(model), Contains("index &lt;rebuild&gt;") && Contains("</span> paused<"));
}

TEST_CASE("what lifts a pause of a name that no reconciler has is no command that would be refused") {
  Model model = calm();
  for (const char* name : {"zzz_not", "x; y"}) {
    CAPTURE(name);
    model.board.pauses = {{name, "anna@bastion", "by hand", kNow - 1h, {}}};
    const auto attention = needs_attention(model);
    REQUIRE(attention.size() == 1);
    CHECK(attention[0].paste == std::vector<std::string>{"delete its row from ff_reconciler_pause"});
  }
}

TEST_CASE("a reconciler that holds is said to, with the line that releases it, and is not late") {
  Model model = calm();
  ReconcilerView& view = of(model, "execution_deadline");
  view.seen->totals.due = 3;
  view.seen->last.oldest_due = kNow - 1h;
  view.seen->last.hold = {.above = 2, .since = kNow - 1h};
  const auto attention = needs_attention(model);
  REQUIRE(attention.size() == 1);
  CHECK(attention[0].what == "execution_deadline holds: more than 2 rows are due");
  CHECK(attention[0].paste.back() == "ff-reconcilerd resume execution_deadline");
  CHECK_THAT(page_of(model), Contains("</span> held<"));
  view.seen->last.hold->released = true;
  CHECK(needs_attention(model).size() == 1);  // late
  CHECK(needs_attention(model)[0].what.starts_with("execution_deadline is late"));
}

TEST_CASE("that what is paused cannot be read needs attention, with the reason") {
  Model model = calm();
  model.board.pauses_unread = "this role may not <read> it";
  const auto attention = needs_attention(model);
  REQUIRE(attention.size() == 1);
  CHECK(attention[0].severity == Severity::warning);
  CHECK_THAT(attention[0].what, Contains("paused cannot be read"));
  CHECK(attention[0].paste == std::vector<std::string>{"ff-reconcilerd check-db"});
  CHECK_THAT(page_of(model), Contains("may not &lt;read&gt; it"));
}

TEST_CASE("lines to paste have the configuration that the daemon has") {
  Model model = calm();
  model.config_file = "/etc/it's here/a b.yaml";
  model.configuration_refused = true;
  of(model, "lease_expiry").seen->last.quarantined = 1;
  of(model, "lease_expiry").seen->last.quarantine_rows = {quarantined("refused")};
  const std::string config = R"('/etc/it'\''s here/a b.yaml')";
  for (const Attention& it : needs_attention(model))
    for (const std::string& command : it.paste) {
      CAPTURE(command);
      CHECK(command.ends_with(config));
    }
  model.config_file = "/etc/a.yaml";
  CHECK_THAT(page_of(model), Contains("ff-reconcilerd check-config &#39;/etc/a.yaml&#39;") ||
                                 Contains("ff-reconcilerd check-config '/etc/a.yaml'"));
}

TEST_CASE("a row that somebody holds tick after tick names who does") {
  Model model = calm();
  reconcile::HeldRow held{.key = {{3}, {kId, "0"}},
                          .pair = reconcile::find_reconciler("lease_expiry"),
                          .execution = ExecutionId{{3}, *parse_uuid(kId)},
                          .held_for = 12s,
                          .ticks = 4};
  of(model, "lease_expiry").seen->last.held = {held};
  CHECK(needs_attention(model).at(0).why ==
        "Somebody who is not to be seen has locked it, or it is promised to a worker.");
  held.holders = {
      {.table = "ff_attempt", .pid = 4711, .application = "mailer", .state = "idle in transaction"}};
  of(model, "lease_expiry").seen->last.held = {held};
  const auto attention = needs_attention(model);
  REQUIRE(attention.size() == 1);
  CHECK(attention[0].why == "pid 4711 (mailer, idle in transaction) holds a row in ff_attempt");
  CHECK(attention[0].paste == std::vector<std::string>{"ff-reconcilerd explain '{fp:3}:" + kId + "'"});
  CHECK_THAT(page_of(model), Contains("has been passed over for 12.0 s"));
}

TEST_CASE("a partition is overdue by the reconciler that has left most behind there") {
  Model model = calm();
  for (const auto& [name, waited] : {std::pair{"lease_expiry", 20s}, std::pair{"attempt_timeout", 90s}}) {
    ReconcilerView& view = of(model, name);
    view.seen->totals.due = 1;
    view.seen->last.oldest_due = kNow - waited;
    view.seen->last.oldest_due_in[{7}] = kNow - waited;
  }
  // It found something and has moved it.
  of(model, "dependency").seen->last.oldest_due_in[{8}] = kNow - 5s;
  const std::string map = partition_map(model);
  CHECK_THAT(map, Contains("title=\"7: 1 m 30 s\"") &&
                      Contains("partition 7: 1 m 30 s, for attempt_timeout") &&
                      Contains("1 of 256 partitions has something overdue"));
}

TEST_CASE("the page's policy permits its own style and nothing else") {
  const auto reply = daemon::page::reply(calm());
  CHECK(reply.status == 200);
  std::map<std::string, std::string> headers(reply.headers.begin(), reply.headers.end());
  CHECK(headers["Cache-Control"] == "no-store");
  const std::string policy = headers["Content-Security-Policy"];
  const auto at = policy.find("'nonce-") + 7;
  const std::string nonce = policy.substr(at, policy.find('\'', at) - at);
  CHECK(nonce.size() == 32);
  CHECK(policy == "default-src 'none'; style-src 'nonce-" + nonce +
                      "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  CHECK_THAT(reply.body, Contains("<style nonce=\"" + nonce + "\">"));
  CHECK(daemon::page::reply(calm()).body != reply.body);
}
