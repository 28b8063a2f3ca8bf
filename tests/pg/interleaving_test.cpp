// Any reconciler and any worker, or any other reconciler, at one execution: whatever the order, and at once,
// what is left is a legal state with one event for each thing that happened.
#include <array>
#include <barrier>
#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "demo/simulation/audit.hpp"
#include "support/deadlocks.hpp"
#include "support/interleaving.hpp"

using namespace ff;
using namespace ff::test;

namespace {

using Lines = std::vector<std::string>;
constexpr int kTimesAtOnce = 3;  // how often two steps are let loose upon each other

struct Pair {
  std::size_t first;
  std::size_t second;
};

/// All pairs of the scene's steps in which a reconciler takes part: what two workers do to each other is not ours to
/// judge. In both orders, or each pair once.
std::vector<Pair> pairs(const Scene& scene, const std::vector<Step>& steps, bool both_orders) {
  std::vector<Pair> all;
  for (std::size_t first = 0; first < steps.size(); ++first)
    for (std::size_t second = both_orders ? 0 : first; second < steps.size(); ++second)
      if ((steps[first].reconciles || steps[second].reconciles) && is_taken_in(scene, steps[first]) &&
          is_taken_in(scene, steps[second]))
        all.push_back({first, second});
  return all;
}

/// The rows of one flow and its executions, as one text.
std::string state_of(pg::Connection& db, const Seed& seed) {
  static const std::string query = [] {
    std::string sql;
    for (const char* table : {"ff_exec_core", "ff_attempt", "ff_suspension_current", "ff_waitpoint_pending",
                              "ff_completion_event", "ff_lease_event", "ff_claim_grant"})
      sql += std::string(sql.empty() ? "" : " UNION ALL ") + "SELECT to_jsonb(t)::text FROM " + table +
             " t WHERE partition_key = $1 AND execution_id" +
             (std::string_view(table) == "ff_lease_event" ? "::uuid" : "") + " = ANY($2)";
    for (const char* table : {"ff_edge_group", "ff_pending_cancel_groups", "ff_cancel_backlog_member"})
      sql += std::string(" UNION ALL SELECT to_jsonb(t)::text FROM ") + table +
             " t WHERE partition_key = $1 AND flow_id = $3";
    return "SELECT string_agg(row, E'\\n' ORDER BY row) FROM (" + sql + ") rows(row)";
  }();
  const std::vector<Uuid> executions{seed.earlier, seed.id, seed.later};
  return db.execute_prepared(query, pg::Params::of(seed.partition, executions, seed.id))
      .one()
      .get<std::string>(0);
}

/// What is illegal, each line with the pair that has to answer for it.
Lines audit(pg::Connection& db, const std::map<std::string, std::string>& stories) {
  Lines lines = simulation::audit(db);
  for (std::string& line : lines)
    for (const auto& [id, story] : stories)
      if (line.find(id) != std::string::npos) line += "  [" + story + "]";
  return lines;
}

/// Of every execution that a story is about, by the id of each of its three executions.
void remember(std::map<std::string, std::string>& stories, const Seed& seed, const std::string& story) {
  for (const Uuid& id : {seed.earlier, seed.id, seed.later}) stories[to_string(id)] = story;
}

Seeded seed_scene(pg::Connection& db, const Scene& scene, std::size_t count) {
  const Seeded seeded = seed(db, parts_of(scene),
                             {.count = static_cast<int>(count),
                              .partitions = "{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}",
                              .name_space = "a",
                              .instance_tag = "1"});
  // Events have the order in which they are inserted: that a lease was given back comes second.
  db.execute_script(
      "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, "
      "instance_tag) "
      "SELECT e.execution_id, 'revoked', e.occurred_at_ms, e.partition_key, e.namespace, e.instance_tag "
      "FROM ff_lease_event e JOIN ff_attempt a ON a.execution_id::text = e.execution_id "
      "WHERE a.lease_expires_at_ms IS NULL");
  db.execute_script("ANALYZE");
  REQUIRE(simulation::audit(db) == Lines{});
  return seeded;
}

/// Both steps, each by a thread of its own that goes through all pairs in step with the other.
Lines at_once(std::array<Actor, 2>& actors, const Scene& scene, const std::vector<Pair>& all,
              const Seeded& seeded) {
  std::barrier together(2);
  std::array<Lines, 2> failed;
  const auto go_through = [&](std::size_t who) {
    for (std::size_t i = 0; i < seeded.seeds.size(); ++i) {
      const Pair& pair = all.at(i % all.size());
      const Step& step = actors.at(who).steps().at(who == 0 ? pair.first : pair.second);
      together.arrive_and_wait();
      try {
        step.take(scene, seeded.seeds[i]);
      } catch (const std::exception& error) {
        failed.at(who).push_back(step.name + ": " + error.what());
      }
    }
  };
  std::thread other([&] { go_through(1); });
  go_through(0);
  other.join();
  failed[0].insert(failed[0].end(), failed[1].begin(), failed[1].end());
  return failed[0];
}

}  // namespace

TEST_CASE("any two steps at one execution, one after the other, leave it in a legal state") {
  std::set<std::string> effective;
  std::set<std::string> known;
  for (const Scene& scene : scenes()) {
    INFO("an execution that is " << scene.name);
    const Database database;
    auto db = database.connect();
    std::map<std::string, std::string> stories;
    {
      Actor actor(database);
      const auto all = pairs(scene, actor.steps(), true);
      const Seeded seeded = seed_scene(db, scene, all.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        const Step& first = actor.steps()[all[i].first];
        const Step& second = actor.steps()[all[i].second];
        const Seed& seed = seeded.seeds[i];
        remember(stories, seed, first.name + ", then " + second.name);
        INFO(first.name << ", then " << second.name);
        known.insert({first.name, second.name});
        for (const Step* step : {&first, &second}) {
          const std::string before = state_of(db, seed);
          const bool did = step->take(scene, seed);
          if (did) effective.insert(step->name);
          // What cannot be done changes nothing, and what is done can be seen.
          CHECK(did == (state_of(db, seed) != before));
        }
      }
    }
    CHECK(audit(db, stories) == Lines{});
    CHECK(deadlocks(db) == 0);
  }
  // No step is here for show. Quotas have a test of their own, dead_worker leaves to its own trial who is alive, and no
  // scene has an end that completion_repair has to tell, or one that is old enough for execution_retention: that they
  // leave these alone is what is seen of them.
  for (const char* other :
       {"completion_repair", "dead_worker", "execution_retention", "quota_concurrency", "quota_window"}) {
    effective.erase(other);
    known.erase(other);
  }
  CHECK(effective == known);
}

TEST_CASE("any two steps at one execution, both at once, leave it in a legal state") {
  for (const Scene& scene : scenes()) {
    INFO("an execution that is " << scene.name);
    const Database database;
    auto db = database.connect();
    std::map<std::string, std::string> stories;
    {
      std::array<Actor, 2> actors{Actor(database), Actor(database)};
      const auto all = pairs(scene, actors[0].steps(), false);
      const Seeded seeded = seed_scene(db, scene, all.size() * kTimesAtOnce);
      const auto& steps = actors[0].steps();
      for (std::size_t i = 0; i < seeded.seeds.size(); ++i) {
        const Pair& pair = all[i % all.size()];
        remember(stories, seeded.seeds[i], steps[pair.first].name + " beside " + steps[pair.second].name);
      }
      CHECK(at_once(actors, scene, all, seeded) == Lines{});
    }
    CHECK(audit(db, stories) == Lines{});
    CHECK(deadlocks(db) == 0);
  }
}

TEST_CASE(
    "any step at one execution, taken while a reconciler has looked and not acted, leaves it in a legal "
    "state") {
  int stepped_in = 0;
  for (const Scene& scene : scenes()) {
    INFO("an execution that is " << scene.name);
    const Database database;
    auto db = database.connect();
    std::map<std::string, std::string> stories;
    {
      Actor looking(database);
      Actor stepping_in(database);
      auto all = pairs(scene, looking.steps(), true);
      std::erase_if(all, [&](const Pair& pair) { return !looking.steps()[pair.first].reconciles; });
      const Seeded seeded = seed_scene(db, scene, all.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        const Step& first = looking.steps()[all[i].first];
        const Step& second = stepping_in.steps()[all[i].second];
        const Seed& seed = seeded.seeds[i];
        remember(stories, seed, second.name + " in the midst of " + first.name);
        INFO(second.name << " in the midst of " << first.name);
        looking.clock().let([&] {
          if (second.take(scene, seed)) ++stepped_in;
        });
        CHECK_NOTHROW(first.take(scene, seed));
        looking.clock().let(nullptr);
      }
    }
    CHECK(audit(db, stories) == Lines{});
    CHECK(deadlocks(db) == 0);
  }
  CHECK(stepped_in > 0);
}
