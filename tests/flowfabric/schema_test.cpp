// The real FlowFabric's whole life on a schema that our own migrations made, and our daemon on FlowFabric's.
#include <catch2/catch.hpp>

#include "support/database.hpp"
#include "support/engine.hpp"
#include "support/flowfabric.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;

namespace {

std::string create(FlowFabric& real, const Json& more = {}) {
  Json arguments{{"partition", 0}, {"runnable", "pending_first_attempt"}};
  arguments.update(more.is_null() ? Json::object() : more);
  return real.call("create_execution", arguments).at("execution");
}

}  // namespace

TEST_CASE("on our own schema real workers claim in every way, renew, fail, delay and complete") {
  Database database;
  FlowFabric real(url_of(Database::server(), database.name()));
  real.call("seed_secret");

  const std::string plain = create(real);
  REQUIRE(real.call("claim", {{"as", "h"}}).at("execution") == plain);
  real.call("renew", {{"handle", "h"}});
  real.call("progress", {{"handle", "h"}, {"percent", 50}});
  real.call("fail", {{"handle", "h"}});
  real.call("claim", {{"as", "h"}});
  real.call("delay", {{"handle", "h"}, {"delay_in_ms", 1}});
  auto connection = database.connect();
  connection.execute("SELECT pg_sleep(0.005)");
  EngineFixture promoter(database, "delayed_promoter");
  CHECK(outcomes(promoter->tick()) == "promoted=1");
  real.call("claim", {{"as", "h"}});
  real.call("complete", {{"handle", "h"}, {"payload", "done"}});

  const std::string typed = create(real);
  real.call("write_grant", {{"execution", typed}});
  real.call("claim_execution", {{"execution", typed}, {"as", "t"}});
  real.call("renew_lease", {{"handle", "t"}});
  real.call("fail_execution", {{"handle", "t"}, {"max_retries", 2}, {"backoff_ms", 1}});
  connection.execute("SELECT pg_sleep(0.005)");
  CHECK(outcomes(promoter->tick()) == "promoted=1");
  real.call("issue_grant_and_claim", {{"execution", typed}, {"as", "t"}});
  real.call("complete_execution", {{"handle", "t"}});

  const std::string granted = create(real);
  CHECK(real.call("claim_for_worker").at("execution") == granted);
  real.call("issue_grant_and_claim", {{"execution", granted}, {"as", "g"}});
  real.call("complete", {{"handle", "g"}});
  CHECK(number(connection, "SELECT count(*) FROM ff_exec_core WHERE lifecycle_phase = 'terminal'") == 3);
  CHECK(number(connection, "SELECT count(*) FROM ff_completion_event WHERE outcome = 'success'") == 3);
}

TEST_CASE(
    "on our own schema real workers suspend, and are signalled, resumed, reclaimed, cancelled and replayed") {
  Database database;
  FlowFabric real(url_of(Database::server(), database.name()));
  real.call("seed_secret");

  const std::string execution = create(real);
  real.call("claim", {{"as", "h"}});
  const Json pending = real.call("create_waitpoint", {{"handle", "h"}, {"key", "k"}});
  const Json used =
      real.call("suspend", {{"handle", "h"},
                            {"waitpoints", {{{"pending", pending.at("waitpoint")}, {"key", "k"}}}},
                            {"idempotency_key", "once"}});
  real.call("deliver_signal", {{"execution", execution},
                               {"waitpoint", used.at("waitpoints").at(0).at("waitpoint")},
                               {"idempotency_key", "s1"}});
  real.call("claim_resumed_execution", {{"execution", execution}, {"as", "h"}});
  CHECK(real.call("observe_signals", {{"handle", "h"}}).size() == 1);
  real.call("complete", {{"handle", "h"}});
  real.call("replay_execution", {{"execution", execution}});
  real.call("change_priority", {{"execution", execution}, {"priority", 5}});
  real.call("cancel_execution", {{"execution", execution}});

  const std::string lost = create(real);
  real.call("claim", {{"as", "late"}, {"ttl_ms", 1}});
  database.connect().execute("SELECT pg_sleep(0.005)");
  CHECK(real.call("issue_reclaim_grant", {{"execution", lost}}).at("outcome") == "granted");
  CHECK(real.call("reclaim_execution", {{"execution", lost}, {"as", "h2"}}).at("outcome") == "claimed");
  real.call("revoke_lease", {{"execution", lost}});
  CHECK(real.refusal("renew", {{"handle", "h2"}}) == "Contention.LeaseConflict");

  const std::string waiting = create(real, {{"lane", "other"}});
  real.call("claim", {{"as", "w"}, {"lane", "other"}});
  real.call("suspend", {{"handle", "w"}});
  real.call("resume_execution", {{"execution", waiting}});
  real.call("claim", {{"as", "w"}, {"lane", "other"}});
  real.call("cancel", {{"handle", "w"}});
}

TEST_CASE("on our own schema real flows, budgets, workers and FlowFabric's own scanners work") {
  Database database;
  FlowFabric real(url_of(Database::server(), database.name()));
  real.call("seed_secret");

  const Json flow = real.call("create_flow", {{"partition", 2}}).at("flow");
  const std::string up = create(real, {{"flow", flow}, {"lane", "up"}});
  const std::string other = create(real, {{"flow", flow}, {"lane", "other"}});
  const std::string down = create(real, {{"flow", flow}, {"lane", "down"}});
  real.call("set_edge_policy", {{"flow", flow}, {"downstream", down}, {"policy", "any_of"}});
  for (const std::string& from : {up, other})
    real.call("stage_edge", {{"flow", flow}, {"upstream", from}, {"downstream", down}, {"apply", true}});
  real.call("claim", {{"lane", "up"}, {"as", "h"}});
  real.call("complete", {{"handle", "h"}});
  CHECK(real.call("scan", {{"name", "dispatch_completion"}}).at("processed") == 1);
  CHECK(real.call("scan", {{"name", "edge_cancel_dispatcher"}}).at("processed") == 1);
  for (const char* name : {"attempt_timeout", "lease_expiry", "suspension_timeout", "budget_reset",
                           "worker_registry", "dependency", "edge_cancel_reconciler"}) {
    INFO(name);
    CHECK(real.refusal("scan", {{"name", name}, {"partitions", {0, 1, 2}}}).empty());
  }
  CHECK(real.call("describe_flow", {{"flow", flow}}).at("edges") == 2);
  real.call("cancel_flow_header", {{"flow", flow}});
  real.call("ack_cancel_member", {{"flow", flow}, {"execution", down}});
  const Json second = real.call("create_flow", {{"partition", 3}}).at("flow");
  create(real, {{"flow", second}});
  real.call("cancel_flow", {{"flow", second}});

  const Json budget =
      real.call("create_budget", {{"hard", {{"tokens", 9}}}, {"reset_interval_ms", 60'000}}).at("budget");
  const std::string spender = create(real, {{"lane", "spender"}});
  real.call("claim", {{"lane", "spender"}, {"as", "s"}});
  real.call("report_usage",
            {{"handle", "s"}, {"budget", budget}, {"deltas", {{"tokens", 1}}}, {"dedup_key", "d"}});
  real.call("report_usage_admin", {{"budget", budget}, {"deltas", {{"tokens", 1}}}});
  real.call("record_spend", {{"budget", budget}, {"execution", spender}, {"deltas", {{"tokens", 2}}}});
  real.call("release_budget", {{"budget", budget}, {"execution", spender}});
  real.call("reset_budget", {{"budget", budget}});
  CHECK(real.call("budget_status", {{"budget", budget}}).at("usage").at("tokens") == 0);

  real.call("register_worker", {{"instance", "i"}});
  real.call("heartbeat_worker", {{"instance", "i"}});
  CHECK(real.call("mark_worker_dead", {{"instance", "i"}}).at("outcome") == "Marked");
}

TEST_CASE("the daemon is ready at once on a database of FlowFabric's, and works there") {
  FlowFabricDatabase database;
  FlowFabric& real = database.flowfabric();
  const std::string execution = create(real);
  real.call("claim", {{"as", "late"}, {"ttl_ms", 1}});

  RunningDaemon daemon({.conninfo = database.conninfo()});
  CHECK(wait_until([&] { return daemon.ready(); }));
  auto connection = database.connect();
  CHECK(wait_until([&] {
    return number(connection,
                  "SELECT count(*) FROM ff_exec_core WHERE attempt_state = 'pending_retry_attempt'") == 1;
  }));
  REQUIRE(real.call("claim", {{"as", "next"}}).at("execution") == execution);
  CHECK(real.refusal("complete", {{"handle", "next"}}).empty());
  CHECK(daemon.stop() == 0);
}

TEST_CASE("a daemon without a choice of its own looks after all of 1,024 partitions") {
  FlowFabricDatabase database;
  auto connection = database.connect();
  connection.execute("UPDATE ff_partition_config SET num_flow_partitions = 1024");
  FlowFabric real(database.url(), {"--flow-partitions", "1024"});
  for (const int partition : {0, 256, 700, 1023}) {
    const std::string execution = create(real, {{"partition", partition}});
    real.call("write_grant", {{"execution", execution}});
    real.call("claim_execution", {{"execution", execution}, {"as", "late"}, {"ttl_ms", 1}});
  }

  RunningDaemon daemon({.conninfo = database.conninfo()});
  CHECK(wait_until([&] {
    return number(connection,
                  "SELECT count(*) FROM ff_exec_core WHERE attempt_state = 'pending_retry_attempt'") == 4;
  }));
  CHECK(daemon.stop() == 0);
}
