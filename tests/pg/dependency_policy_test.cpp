// dependency: what each policy makes of the counts of a fan-in, and of a policy that is none.
#include <catch2/catch.hpp>
#include <cstdio>
#include <ostream>

#include "support/engine.hpp"
#include "support/flow.hpp"

using namespace ff;
using namespace ff::test;

namespace {

enum class Then { nothing, eligible, skipped };

std::ostream& operator<<(std::ostream& out, Then then) {
  return out << (then == Then::nothing ? "nothing" : then == Then::eligible ? "eligible" : "skipped");
}

struct Case {
  const char* policy;
  const char* before;  ///< success/fail/skip/running; the upstream that ends is one of those running
  const char* outcome;
  const char* after;
  Then then;
};

constexpr const char* kAllOf = R"({"kind": "all_of"})";
constexpr const char* kAnyOf = R"({"kind": "any_of"})";
constexpr const char* kTwo = R"({"kind": "quorum", "k": 2})";
constexpr const char* kQuorum = R"({"kind": "quorum"})";

/// The fan-in of one upstream with these counts, and what its end makes of the downstream.
void check(const Case& c) {
  // One database for all of them: each case adds its rows and sees only its own change.
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_completion_event");
  CAPTURE(c.policy, c.before, c.outcome);
  GroupRow group{.policy = Json::object()};
  int running = 0;
  REQUIRE(std::sscanf(c.before, "%d/%d/%d/%d", &group.success, &group.fail, &group.skip, &running) == 4);
  group.running = running;
  const FanIn f = insert_fan_in(db, 1, group);
  // Not through the test's JSON: it has no room for 1e400.
  db.execute("UPDATE ff_edge_group SET policy = $1::jsonb WHERE downstream_eid = $2",
             pg::Params::of(c.policy, f.downstream));
  end_upstream(db, f, 0, c.outcome);
  const Json core_before = core(db, f.downstream);
  EngineFixture engine(database, "dependency");
  const auto report = engine->tick();
  CHECK(outcomes(report) == "advanced=1");
  CHECK(report.error_count() == 0);
  CHECK(counts(db, f.downstream) == c.after);
  const Json now = core(db, f.downstream);
  CHECK((now == core_before                           ? Then::nothing
         : now["eligibility_state"] == "eligible_now" ? Then::eligible
                                                      : Then::skipped) == c.then);
}

}  // namespace

TEST_CASE("dependency satisfies all_of by the last success and gives it up by the first that is none") {
  check(GENERATE(values<Case>({
      {kAllOf, "0/0/0/1", "success", "1/0/0/0", Then::eligible},
      {kAllOf, "1/0/0/1", "success", "2/0/0/0", Then::eligible},
      {kAllOf, "0/0/0/2", "success", "1/0/0/1", Then::nothing},
      {kAllOf, "0/0/0/1", "failed", "0/1/0/0", Then::skipped},
      {kAllOf, "0/0/0/3", "failed", "0/1/0/2", Then::skipped},
      {kAllOf, "2/0/0/1", "skipped", "2/0/1/0", Then::skipped},
      {kAllOf, "0/1/0/1", "success", "1/1/0/0", Then::skipped},
      {kAllOf, "0/0/1/2", "success", "1/0/1/1", Then::skipped},
      {kAllOf, "1/1/0/1", "success", "2/1/0/0", Then::skipped},
      // Whatever is neither success nor skipped is a failure.
      {kAllOf, "0/0/0/2", "expired", "0/1/0/1", Then::skipped},
      {kAllOf, "0/0/0/2", "cancelled", "0/1/0/1", Then::skipped},
      {kAllOf, "0/0/0/2", "something new", "0/1/0/1", Then::skipped},
      // More events than were announced: nothing runs, and still the counts go up.
      {kAllOf, "0/0/0/0", "success", "1/0/0/0", Then::eligible},
      {kAllOf, "0/0/0/0", "skipped", "0/0/1/0", Then::skipped},
  })));
}

TEST_CASE("dependency satisfies any_of by the first success and gives it up when there can be none") {
  check(GENERATE(values<Case>({
      {kAnyOf, "0/0/0/1", "success", "1/0/0/0", Then::eligible},
      {kAnyOf, "0/0/0/3", "success", "1/0/0/2", Then::eligible},
      {kAnyOf, "0/1/1/1", "success", "1/1/1/0", Then::eligible},
      {kAnyOf, "0/0/0/1", "failed", "0/1/0/0", Then::skipped},
      {kAnyOf, "0/0/0/2", "failed", "0/1/0/1", Then::nothing},
      {kAnyOf, "0/1/0/2", "skipped", "0/1/1/1", Then::nothing},
      {kAnyOf, "0/1/0/1", "failed", "0/2/0/0", Then::skipped},
      {kAnyOf, "0/1/0/1", "skipped", "0/1/1/0", Then::skipped},
      {kAnyOf, "0/0/1/1", "failed", "0/1/1/0", Then::skipped},
      // Satisfied before, by an event of its own.
      {kAnyOf, "1/0/0/1", "failed", "1/1/0/0", Then::nothing},
      {kAnyOf, "1/0/0/1", "success", "2/0/0/0", Then::nothing},
  })));
}

TEST_CASE("dependency satisfies a quorum by k successes and gives it up when k are out of reach") {
  check(GENERATE(values<Case>({
      {kTwo, "0/0/0/3", "success", "1/0/0/2", Then::nothing},
      {kTwo, "1/0/0/2", "success", "2/0/0/1", Then::eligible},
      {kTwo, "1/1/0/1", "success", "2/1/0/0", Then::eligible},
      {kTwo, "0/0/0/3", "failed", "0/1/0/2", Then::nothing},
      {kTwo, "1/0/0/2", "skipped", "1/0/1/1", Then::nothing},
      {kTwo, "0/1/0/2", "failed", "0/2/0/1", Then::skipped},
      {kTwo, "0/0/1/2", "failed", "0/1/1/1", Then::skipped},
      {kTwo, "1/0/1/1", "skipped", "1/0/2/0", Then::skipped},
      {kTwo, "1/0/0/1", "failed", "1/1/0/0", Then::skipped},
      {kTwo, "2/0/0/1", "failed", "2/1/0/0", Then::nothing},
      {kTwo, "2/0/0/1", "success", "3/0/0/0", Then::nothing},
      {kTwo, "0/0/0/1", "success", "1/0/0/0", Then::skipped},  // never enough upstreams
      {kQuorum, "0/0/0/2", "success", "1/0/0/1", Then::eligible},
      {kQuorum, "0/0/0/2", "failed", "0/1/0/1", Then::nothing},
      {kQuorum, "0/1/0/1", "failed", "0/2/0/0", Then::skipped},
  })));
}

TEST_CASE("dependency reads a k that is no whole number as one") {
  const auto k = GENERATE("-1", "\"2\"", "2.5", "null", "[2]", "{}", "true", "4294967296", "1e400",
                          "99999999999999999999");
  const std::string policy = R"({"kind": "quorum", "k": )" + std::string(k) + "}";
  check({policy.c_str(), "0/0/0/2", "success", "1/0/0/1", Then::eligible});
  check({policy.c_str(), "0/0/0/2", "failed", "0/1/0/1", Then::nothing});
}

TEST_CASE("dependency takes an extreme k at its word") {
  check(GENERATE(values<Case>({
      {R"({"kind": "quorum", "k": 0})", "0/0/0/2", "failed", "0/1/0/1", Then::eligible},
      {R"({"kind": "quorum", "k": 0})", "0/1/0/1", "success", "1/1/0/0", Then::nothing},
      {R"({"kind": "quorum", "k": 4294967295})", "0/0/0/2", "success", "1/0/0/1", Then::skipped},
      {R"({"kind": "quorum", "k": 1e1})", "9/0/0/2", "success", "10/0/0/1", Then::eligible},
      {R"({"kind": "quorum", "k": 1e1})", "8/0/0/2", "success", "9/0/0/1", Then::nothing},
      // It belongs to quorum alone.
      {R"({"kind": "any_of", "k": 2})", "0/0/0/2", "success", "1/0/0/1", Then::eligible},
      {R"({"kind": "all_of", "k": 1})", "0/0/0/2", "success", "1/0/0/1", Then::nothing},
  })));
}

TEST_CASE("dependency reads a policy without a kind that it knows as all_of") {
  const auto policy =
      GENERATE(R"({})", R"(null)", R"(5)", R"("any_of")", R"(true)", R"([])", R"(["any_of"])",
               R"([{"kind": "any_of"}])", R"({"kind": null})", R"({"kind": 5})", R"({"kind": ["any_of"]})",
               R"({"kind": {"any_of": 1}})", R"({"kind": "ANY_OF"})", R"({"kind": "any_of "})",
               R"({"kind": ""})", R"({"kind": "some_of", "k": 1})", R"({"k": 1})", R"({"on_satisfied": 5})");
  check({policy, "0/0/0/2", "success", "1/0/0/1", Then::nothing});
  check({policy, "1/0/0/1", "success", "2/0/0/0", Then::eligible});
  check({policy, "0/0/0/2", "failed", "0/1/0/1", Then::skipped});
}

TEST_CASE("dependency goes by the policy's k and not by the target that the group names") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 3, {.policy = Json::parse(kTwo)});
  db.execute("UPDATE ff_edge_group SET k_target = 1");
  end_upstream(db, f, 0);
  EngineFixture engine(database, "dependency");
  CHECK(engine->tick().processed == 1);
  CHECK(core(db, f.downstream)["lifecycle_phase"] == "blocked");
}
