// Who takes a lapsed lease when lease_expiry and attempt_timeout both run, and when only one does.
#include <catch2/catch.hpp>

#include "demo/simulation/worker.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr std::optional<std::int64_t> kUnlimited{};

/// The pair as one daemon runs it: each knows of the other.
struct Pair {
  EngineFixture lease_expiry;
  EngineFixture attempt_timeout;

  Pair(const Database& database, std::optional<std::int64_t> max_reclaims)
      : lease_expiry(database, "lease_expiry",
                     {.settings = {{"max_reclaims", max_reclaims}}, .together_with = both(max_reclaims)}),
        attempt_timeout(database, "attempt_timeout", {.together_with = both(max_reclaims)}) {}

  static std::map<std::string, Settings> both(std::optional<std::int64_t> max_reclaims) {
    return {{"attempt_timeout", {}}, {"lease_expiry", {{"max_reclaims", max_reclaims}}}};
  }
};

}  // namespace

TEST_CASE("a lapsed lease goes to exactly one of the two by how often it was reclaimed") {
  struct Case {
    std::optional<std::int64_t> max_reclaims;
    Json reclaims;
    bool is_active;
    const char* lease_expiry;
    const char* attempt_timeout;
  };
  const auto c = GENERATE(values<Case>({
      {3, nullptr, true, "reclaimable=1", ""},
      {3, 0, true, "reclaimable=1", ""},
      {3, 2, true, "reclaimable=1", ""},
      {3, 3, true, "", "retried=1"},
      {3, 4, true, "", "retried=1"},
      {3, "3", true, "reclaimable=1", ""},
      {3, -1, true, "reclaimable=1", ""},
      {1, 0, true, "reclaimable=1", ""},
      {1, 1, true, "", "retried=1"},
      {0, nullptr, true, "", "retried=1"},
      {0, 7, true, "", "retried=1"},
      // attempt_timeout takes active executions only: what it would never take is not left to it.
      {3, 3, false, "released=1", ""},
      {0, nullptr, false, "released=1", ""},
  }));
  const bool lease_expiry_first = GENERATE(true, false);
  static const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(
      db, {.partition = {3}, .state = c.is_active ? active() : suspended(), .policy = max_retries(1)},
      {.raw_fields = {{"lease_reclaims", c.reclaims}}});
  Pair pair(database, c.max_reclaims);
  CAPTURE(c.max_reclaims.value(), c.reclaims.dump(), c.is_active, lease_expiry_first);

  const auto tick = [&](bool first) {
    return first ? outcomes(pair.lease_expiry->tick()) : outcomes(pair.attempt_timeout->tick());
  };
  const std::string one = tick(lease_expiry_first);
  const std::string other = tick(!lease_expiry_first);
  CHECK((lease_expiry_first ? one : other) == c.lease_expiry);
  CHECK((lease_expiry_first ? other : one) == c.attempt_timeout);
  CHECK(attempt(db, id)["lease_expires_at_ms"].is_null());
  CHECK(attempt(db, id)["lease_epoch"] == 2);
}

TEST_CASE("what the other takes is refused under the lock, too") {
  const Database database;
  auto db = database.connect();
  // The number of reclaims changes between looking and acting.
  const auto set = [&](int reclaims) {
    db.execute("UPDATE ff_attempt SET raw_fields = jsonb_build_object('lease_reclaims', $1)",
               pg::Params::of(reclaims));
  };
  insert_lapsed(db, {.partition = {3}});
  const bool is_timeout = GENERATE(true, false);
  const int at_first = is_timeout ? 3 : 2;
  set(at_first);
  const auto step_in = [&] { set(5 - at_first); };
  EngineOptions options{.together_with = Pair::both(3)};
  EngineFixture engine(database, is_timeout ? "attempt_timeout" : "lease_expiry", options);
  const auto report = engine->tick(stepping_in(step_in));
  CHECK(report.scanned == 1);
  CHECK(report.processed == 0);
  CHECK(report.skipped.at(reconcile::Skip::no_longer_due) == 1);
}

TEST_CASE("each of the two takes every lapsed lease when it runs alone") {
  const Database database;
  auto db = database.connect();
  for (const Json& reclaims : {Json(nullptr), Json(2), Json(3), Json(900)})
    insert_lapsed(db, {.partition = {3}}, {.raw_fields = {{"lease_reclaims", reclaims}}});
  const auto [name, moved] = GENERATE(
      table<std::string, std::string>({{"lease_expiry", "reclaimable=4"}, {"attempt_timeout", "expired=4"}}));
  EngineFixture engine(database, name);
  CHECK(outcomes(engine->tick()) == moved);
}

TEST_CASE("without a limit of reclaims each of the two takes whatever it meets, as in FlowFabric") {
  const Database database;
  auto db = database.connect();
  for (const int reclaims : {0, 3, 900})
    insert_lapsed(db, {.partition = {3}}, {.raw_fields = {{"lease_reclaims", reclaims}}});
  Pair pair(database, kUnlimited);
  if (GENERATE(true, false)) {
    CHECK(outcomes(pair.lease_expiry->tick()) == "reclaimable=3");
    CHECK(pair.attempt_timeout->tick().scanned == 0);
  } else {
    CHECK(outcomes(pair.attempt_timeout->tick()) == "expired=3");
    CHECK(pair.lease_expiry->tick().scanned == 0);
  }
}

TEST_CASE("an execution whose workers crash again and again spends its retries and ends") {
  const Database database;
  auto db = database.connect();
  const auto id = simulation::create(db, {.partition = {3}, .max_retries = 2});
  simulation::Worker worker(db, "w1", Milliseconds{30'000});
  Pair pair(database, 2);
  std::string story;
  while (const auto claim = worker.claim_one(id)) {
    REQUIRE(story.size() < 1000);
    db.execute("UPDATE ff_attempt SET lease_expires_at_ms = 5 WHERE lease_expires_at_ms IS NOT NULL");
    story += std::to_string(claim->attempt_index) + ":" + outcomes(pair.lease_expiry->tick()) +
             outcomes(pair.attempt_timeout->tick()) + " ";
  }
  CHECK(story ==
        "0:reclaimable=1 0:reclaimable=1 0:retried=1 1:reclaimable=1 1:reclaimable=1 1:retried=1 "
        "2:reclaimable=1 2:reclaimable=1 2:expired=1 ");
  CHECK(core(db, id.uuid)["public_state"] == "expired");
  CHECK(completion_events(db).size() == 1);
}
