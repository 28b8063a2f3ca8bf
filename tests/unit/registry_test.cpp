#include "reconcile/family/registry.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <set>

#include "reconcile/statements.hpp"

using namespace ff;
using namespace ff::reconcile;
using Catch::Matchers::Contains;

TEST_CASE("each reconciler is found by its name, and no other name finds one") {
  std::set<std::string_view> names;
  for (const Reconciler& reconciler : registry()) {
    CHECK(names.insert(reconciler.name).second);
    CHECK(find_reconciler(reconciler.name) == &reconciler);
  }
  CHECK(names.contains("attempt_timeout"));
  CHECK(names.contains("lease_expiry"));
  for (const char* name : {"", "attempt", "attempt_timeout ", "ATTEMPT_TIMEOUT", "all"})
    CHECK(find_reconciler(name) == nullptr);
}

TEST_CASE("each reconciler is described completely") {
  for (const Reconciler& reconciler : all_pairs()) {
    CAPTURE(reconciler.name);
    CHECK(reconciler.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string_view::npos);
    CHECK(reconciler.summary.ends_with("."));
    CHECK(!reconciler.outcomes.empty());
    std::set<std::string_view> outcomes;
    for (const Outcome& outcome : reconciler.outcomes) CHECK(outcomes.insert(outcome.name).second);
    CHECK(!reconciler.key.empty());
    CHECK(reconciler.interval > Milliseconds{0});
    CHECK(reconciler.batch_size > 0);
    // A row can be named by its execution, by whatever key it has, as long as the scan tells the execution.
    if (!reconciler.execution_column.empty())
      CHECK(reconciler.scan.find(reconciler.execution_column) != std::string::npos);
  }
}

TEST_CASE("each setting's default lies within its own bounds") {
  for (const Reconciler& reconciler : all_pairs()) {
    const Settings defaults = default_settings(reconciler);
    std::size_t have_one = 0;
    for (const SettingDecl& decl : reconciler.settings) {
      CAPTURE(reconciler.name, decl.name);
      CHECK(decl.least <= decl.fallback);
      CHECK(decl.fallback <= decl.most);
      CHECK(!decl.summary.empty());
      if (decl.kind == SettingDecl::Kind::durations) continue;  // there is none of any name
      ++have_one;
      CHECK(defaults.at(std::string(decl.name)) == decl.fallback);
    }
    CHECK(defaults.size() == have_one);
  }
}

TEST_CASE("the statements of a reconciler take keys, locks and time from the engine") {
  for (const Reconciler& reconciler : all_pairs()) {
    CAPTURE(reconciler.name);
    const Statements statements(reconciler);
    const std::string page = statements.page.over({{2}, {7}});
    const std::string act = statements.act.over({{2}, {7}});
    // Three outboxes and ff_suspend_dedup are one table for all partitions, and have no children to name.
    const auto deletes = [&](const char* outcome) { return reconciler.outcomes.front().name == outcome; };
    const bool has_children = !deletes("lease_events_deleted") && !deletes("signal_events_deleted") &&
                              !deletes("operator_events_deleted") &&
                              reconciler.key.front().name != "idempotency_key";
    if (has_children)
      for (const std::string& text : {page, act})
        CHECK(text.find(".partition_key = ANY('{2,7}'::smallint[]) OR ") != std::string::npos);
    CHECK(page.find("FOR ") == std::string::npos);
    const std::string lock = statements.lock.over({{2}, {7}});
    CHECK((lock + act).find("SKIP LOCKED") != std::string::npos);
    // The engine's own reading of the clock, and no other.
    for (const char* clock : {"now()", "CURRENT_TIMESTAMP"}) CHECK(act.find(clock) == std::string::npos);
    CHECK(act.find("clock_timestamp") == act.rfind("clock_timestamp"));
    // A number would mean something else as soon as the engine has one more.
    for (const char* number : {"$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9"}) {
      CHECK(reconciler.scan.find(number) == std::string_view::npos);
      CHECK(reconciler.act.find(number) == std::string_view::npos);
      CHECK(reconciler.lock.find(number) == std::string_view::npos);
    }
  }
}

TEST_CASE("each pair whose act ends executions or deletes rows says by which outcomes, and why") {
  for (const Reconciler& pair : all_pairs()) {
    CAPTURE(pair.name);
    const std::string act = Statements(pair).act.over({{2}});
    const auto has = [&](std::string_view words) { return act.find(words) != std::string::npos; };
    const bool ends = has("SET lifecycle_phase = 'terminal'") || has("SET lifecycle_phase = 'cancelled'") ||
                      has("'terminal', 'not_applicable'");
    const auto with = [&](Effect effect) {
      return std::ranges::count(pair.outcomes, effect, &Outcome::effect) > 0;
    };
    // budget_reset empties a ledger, and completion_repair clears what an execution that has ended left: both stay.
    const bool deletes =
        has("DELETE FROM") && pair.name != "budget_reset" && pair.name != "completion_repair";
    CHECK(ends_or_deletes(pair) == (ends || deletes));
    CHECK((with(Effect::ended) || !pair.ends_others.empty()) == ends);
    if (!pair.ends_others.empty()) CHECK(has("\nending AS MATERIALIZED"));
    CHECK(has("AS is_beside") == ends_or_deletes(pair));
    for (const Outcome& outcome : pair.outcomes)
      CHECK(outcome.reason.empty() == !ends_or_deletes(outcome.effect));
  }
}

TEST_CASE("docs/actions.md has a line for each outcome that ends or deletes, with its reason, and no other") {
  std::set<std::string> told;
  const auto add = [&](std::string_view name, std::string_view outcome, Effect effect, std::string_view why) {
    told.insert(fmt::format("| `{}` | `{}` | {} | {} |", name, outcome,
                            effect == Effect::ended ? "ended" : "deleted", why));
  };
  for (const Reconciler& pair : all_pairs()) {
    for (const Outcome& outcome : pair.outcomes)
      if (ends_or_deletes(outcome.effect)) add(pair.name, outcome.name, outcome.effect, outcome.reason);
    if (!pair.ends_others.empty())
      add(pair.name, pair.name.starts_with("edge_cancel") ? "cancelled" : "skipped", Effect::ended,
          pair.ends_others);
  }
  std::set<std::string> documented;
  std::ifstream file(std::string(FF_SOURCE_DIRECTORY) + "/docs/actions.md");
  for (std::string line; std::getline(file, line);)
    if (std::ranges::count(line, '|') == 5 && line.starts_with("| `")) documented.insert(line);
  CHECK(documented == told);
}

TEST_CASE("a reconciler with a placeholder that means nothing is refused by its name") {
  Reconciler pair = *find_reconciler("attempt_timeout");
  CHECK_NOTHROW(Statements(pair));
  pair.act = "moved AS (SELECT {core_off:a})";
  CHECK_THROWS_WITH(Statements(pair), Contains("attempt_timeout") && Contains("{core_off:a}") &&
                                          Contains("core_of,") && Contains("is_ours,"));
  pair.act = "moved AS (SELECT {promised:a)";
  CHECK_THROWS_WITH(Statements(pair), Contains("without an end"));
  pair = *find_reconciler("attempt_timeout");
  pair.fragments.push_back({"filter(core)", "true"});
  CHECK_THROWS_WITH(Statements(pair), Contains("two fragments") && Contains("filter"));
  pair = *find_reconciler("attempt_timeout");
  pair.own_parameters.clear();
  CHECK_THROWS_WITH(Statements(pair), Contains("own_parameters"));
}

TEST_CASE(
    "attempt_timeout leaves a lapsed lease alone for its grace, and takes what is strictly older than now") {
  const Reconciler& attempts = *find_reconciler("attempt_timeout");
  CHECK(attempts.takes_leases);
  CHECK(attempts.holdoff({{"grace", 0}}) == Milliseconds{1});
  CHECK(attempts.holdoff({{"grace", 2500}}) == Milliseconds{2501});
}

TEST_CASE("attempt_timeout leaves to lease_expiry what that one takes, when it runs") {
  const Reconciler& attempts = *find_reconciler("attempt_timeout");
  const auto own = default_settings(attempts);
  using Values = std::vector<std::optional<std::string>>;
  CHECK(attempts.parameters(own, {}).values() == Values{std::nullopt, "f"});
  CHECK(attempts.parameters(own, {{{"lease_expiry", {{"max_reclaims", 3}}}}}).values() == Values{"3", "f"});
}

TEST_CASE("a family knows its members' settings and nobody else's") {
  const Family family{{{"lease_expiry", {{"max_reclaims", std::nullopt}}}}};
  REQUIRE(family.find("lease_expiry") != nullptr);
  CHECK(family.find("lease_expiry")->contains("max_reclaims"));
  CHECK(family.find("attempt_timeout") == nullptr);
}

TEST_CASE("scans are skipped only for rows that an outbox announces") {
  std::map<std::string_view, std::string> announced;
  for (const Reconciler& reconciler : registry())
    if (const auto by = reconciler.announced(default_settings(reconciler)))
      announced[reconciler.name] = std::string(by->channel) + " " + std::to_string(by->within.count() / 1000);
  CHECK(announced == std::map<std::string_view, std::string>{
                         {"attempt_timeout", "ff_lease_event 0"},
                         {"dependency", "ff_completion 0"},
                         {"edge_cancel_dispatcher", "ff_completion 60"},
                         {"edge_cancel_reconciler", "ff_completion 60"},
                         {"execution_deadline", "ff_lease_event 0"},
                         {"index_repair", "ff_lease_event 0"},
                         {"lease_expiry", "ff_lease_event 0"},
                     });
  const Reconciler& deadline = *find_reconciler("execution_deadline");
  Settings waiting_too = default_settings(deadline);
  waiting_too["include_waiting"] = 1;
  CHECK_FALSE(deadline.announced(waiting_too));
}
