// A cascade through a flow of a thousand executions, with the daemon killed again and again while it runs:
// everything ends as the rules say, and every event counts once.
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <map>
#include <queue>
#include <random>
#include <thread>

#include "demo/simulation/audit.hpp"
#include "demo/simulation/worker.hpp"
#include "support/engine.hpp"
#include "support/flow.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr PartitionKey kPartition{2};
constexpr int kLevels = 5;
constexpr int kPerLevel = 200;
constexpr int kKills = 15;
constexpr int kWorkers = 3;

// What counts a group takes a while, so that a kill often meets a batch half done; and whatever dispatches an
// event that is dispatched already is remembered.
constexpr const char* kTriggers = R"sql(
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.001); RETURN new; END $$;
CREATE TRIGGER slow BEFORE UPDATE ON ff_edge_group FOR EACH ROW EXECUTE FUNCTION slow();
CREATE TABLE dispatched_twice (event_id bigint);
CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO dispatched_twice VALUES (old.event_id); RETURN new; END $$;
CREATE TRIGGER remember BEFORE UPDATE ON ff_completion_event FOR EACH ROW WHEN (old.dispatched_at_ms IS NOT NULL)
EXECUTE FUNCTION remember())sql";

constexpr const char* kConfig = R"yaml(
partitions: 0-3
recovery_grace: 0s
reconcilers:
  dependency: {interval: 20ms, stale_threshold: 0s, batch_size: 4}
  edge_cancel_dispatcher: {interval: 30ms, batch_size: 2}
  edge_cancel_reconciler: {interval: 50ms, batch_size: 2}
)yaml";

// Each group by its own books, and by what has become of its upstreams.
constexpr const char* kMiscounted = R"sql(
SELECT count(*) FROM ff_edge_group g
 CROSS JOIN LATERAL (
   SELECT count(*) FILTER (WHERE u.outcome = 'success') AS success,
          count(*) FILTER (WHERE u.outcome = 'skipped') AS skip,
          count(*) FILTER (WHERE u.outcome IN ('failed', 'cancelled')) AS fail
     FROM ff_edge e
     JOIN ff_completion_event u ON u.partition_key = e.partition_key AND u.execution_id = e.upstream_eid
    WHERE e.partition_key = g.partition_key AND e.flow_id = g.flow_id AND e.downstream_eid = g.downstream_eid) ended
 WHERE (g.success_count, g.fail_count, g.skip_count, g.running_count)
       IS DISTINCT FROM (ended.success::integer, ended.fail::integer, ended.skip::integer, 0))sql";

std::int64_t dispatched(pg::Connection& db) {
  return number(db, "SELECT count(*) FROM ff_completion_event WHERE dispatched_at_ms IS NOT NULL");
}
std::int64_t unfinished(pg::Connection& db) {
  return number(db,
                "SELECT (SELECT count(*) FROM ff_exec_core WHERE lifecycle_phase <> 'terminal')"
                " + (SELECT count(*) FROM ff_completion_event WHERE dispatched_at_ms IS NULL)"
                " + (SELECT count(*) FROM ff_pending_cancel_groups)");
}

/// True once the daemon has nothing left to do but what a worker's next step gives it.
bool daemon_is_done(pg::Connection& db) {
  return number(db,
                "SELECT (SELECT count(*) FROM ff_completion_event WHERE dispatched_at_ms IS NULL)"
                " + (SELECT count(*) FROM ff_pending_cancel_groups)"
                " + (SELECT count(*) FROM ff_edge_group WHERE cancel_siblings_pending_flag)") == 0;
}

/// Workers that run whatever can be claimed to the end that the plan has for it, several at a time. What is
/// slow takes until the daemon has nothing left to do: however slow the machine, it is cancelled in time.
class Workers {
 public:
  Workers(const Database& database, const FlowPlan& plan) {
    for (const auto& execution : plan.executions) fates_[execution.id] = {execution.succeeds, execution.slow};
    for (int i = 0; i < kWorkers; ++i)
      threads_.emplace_back([this, &database, i](const std::stop_token& stop) { work(database, i, stop); });
  }
  void stop() { threads_.clear(); }
  int errors() const { return errors_; }
  int refused() const { return refused_; }

 private:
  struct Fate {
    bool succeeds;
    bool slow;
  };

  void work(const Database& database, int number, const std::stop_token& stop) {
    try {
      auto db = database.connect();
      simulation::Worker worker(db, "w" + std::to_string(number), Milliseconds{600'000});
      std::queue<simulation::Claim> slow;
      while (!stop.stop_requested()) {
        if (const auto claim = worker.claim({kPartition})) {
          if (fates_.at(claim->execution.uuid).slow)
            slow.push(*claim);
          else
            end(worker, *claim);
        } else if (!slow.empty() && daemon_is_done(db)) {
          end(worker, slow.front());
          slow.pop();
        } else {
          std::this_thread::sleep_for(Milliseconds{5});  // nothing to do for now
        }
      }
    } catch (const pg::Error&) {
      ++errors_;
    }
  }

  void end(simulation::Worker& worker, const simulation::Claim& claim) {
    const bool succeeds = fates_.at(claim.execution.uuid).succeeds;
    const bool accepted = succeeds ? worker.complete(claim) : worker.fail(claim, false);
    refused_ += accepted ? 0 : 1;
  }

  std::map<Uuid, Fate> fates_;
  std::atomic<int> errors_{0};
  std::atomic<int> refused_{0};
  std::vector<std::jthread> threads_;
};

/// Kills a daemon as often as kKills: in the middle of counting, or at a random moment of its work. Returns
/// how often it was in the middle.
int kill_again_and_again(pg::Connection& db, const RunningDaemon::Options& options, std::mt19937& generator) {
  std::uniform_int_distribution<int> events(1, 60);
  std::uniform_int_distribution<int> pause(0, 30);
  const auto is_counting = [&db] {
    return number(db,
                  "SELECT count(*) FROM pg_stat_activity WHERE application_name ^@ 'ff-reconcilerd '"
                  " AND datname = current_database() AND wait_event = 'PgSleep'") > 0;
  };
  int in_mid_batch = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    const auto enough = dispatched(db) + events(generator);
    RunningDaemon daemon(options);
    REQUIRE(wait_until([&] { return dispatched(db) >= enough; }));
    if (kill % 2 == 0)
      REQUIRE(wait_until(is_counting));
    else
      std::this_thread::sleep_for(Milliseconds{pause(generator)});  // the moment of death is meant to vary
    in_mid_batch += is_counting() ? 1 : 0;
    daemon.process().signal(SIGKILL);
    REQUIRE(daemon.process().wait() == 128 + SIGKILL);
    REQUIRE(unfinished(db) > 0);
  }
  return in_mid_batch;
}

std::map<Uuid, std::string> states(pg::Connection& db) {
  std::map<Uuid, std::string> states;
  for (const pg::Row row :
       db.execute("SELECT execution_id, CASE outcome WHEN 'success' THEN 'completed' ELSE "
                  "coalesce(outcome, public_state) END "
                  "FROM ff_exec_core LEFT JOIN ff_completion_event USING (partition_key, execution_id)"))
    states[row.get<Uuid>(0)] = row.get<std::string>(1);
  return states;
}

/// A line for every execution that has ended otherwise than planned. How a racer ends depends on who is first
/// and is not compared as such, but it may be cancelled only once the one that waits for it goes ahead.
std::vector<std::string> deviations(const FlowPlan& plan, const std::map<Uuid, std::string>& states) {
  const auto planned = plan.ends();
  std::vector<std::string> lines;
  std::vector<bool> may_be_cancelled(plan.executions.size());
  for (std::size_t i = plan.executions.size(); i-- > 0;) {
    const auto& execution = plan.executions[i];
    const std::string& state = states.at(execution.id);
    const bool goes_ahead = execution.cancels_rest && state != "skipped";
    for (const std::size_t upstream : execution.waits_for)
      if (goes_ahead) may_be_cancelled[upstream] = true;
    if (state != planned[i] && !(state == "cancelled" && execution.racer && may_be_cancelled[i]))
      lines.push_back("level " + std::to_string(execution.level) + " " + to_string(execution.id) + ": " +
                      state + ", planned " + planned[i]);
  }
  return lines;
}

}  // namespace

TEST_CASE("a cascade whose daemon is killed fifteen times ends as the rules say, and no event counts twice") {
  const unsigned seed =
      Catch::rngSeed() != 0 ? Catch::rngSeed() : std::random_device{}();  // --rng-seed repeats it
  CAPTURE(seed);
  std::mt19937 generator{seed};
  const FlowPlan plan = make_plan(generator, kLevels, kPerLevel);
  REQUIRE(plan.executions.size() == kLevels * kPerLevel);
  Database database;
  auto db = database.connect();
  insert_plan(db, plan, kPartition, new_uuid());
  db.execute_script(kTriggers);

  const RunningDaemon::Options options{.conninfo = database.conninfo(), .config = kConfig};
  Workers workers(database, plan);
  const int in_mid_batch = kill_again_and_again(db, options, generator);
  RunningDaemon daemon(options);
  CHECK(wait_until([&] { return unfinished(db) == 0; }));
  CHECK(daemon.stop() == 0);
  workers.stop();
  CHECK(workers.errors() == 0);
  CHECK(in_mid_batch > 0);
  CHECK(workers.refused() > 0);  // cancelled in the middle of their work

  const auto ended = states(db);
  CHECK(deviations(plan, ended) == std::vector<std::string>{});
  CHECK(number(db, kMiscounted) == 0);
  CHECK(number(db, "SELECT count(*) FROM dispatched_twice") == 0);
  CHECK(number(db, "SELECT count(*) FROM ff_completion_event") == kLevels * kPerLevel);
  CHECK(number(db, "SELECT count(DISTINCT execution_id) FROM ff_completion_event") == kLevels * kPerLevel);
  CHECK(number(db, "SELECT count(*) FROM ff_edge_group WHERE cancel_siblings_pending_flag") == 0);
  CHECK(simulation::audit(db) == std::vector<std::string>{});
  // It was a cascade: every kind of end, at the far end as well.
  std::map<std::string, int> kinds;
  std::map<std::string, int> last_level;
  for (const auto& execution : plan.executions) {
    ++kinds[ended.at(execution.id)];
    if (execution.level == kLevels - 1) ++last_level[ended.at(execution.id)];
  }
  for (const char* state : {"completed", "failed", "skipped", "cancelled"}) CHECK(kinds[state] > 0);
  for (const char* state : {"completed", "failed", "skipped"}) CHECK(last_level[state] > 0);
}
