#include <algorithm>
#include <iostream>

#include "check/replicas.hpp"
#include "commands.hpp"
#include "configuration.hpp"
#include "exit_codes.hpp"
#include "explain/read.hpp"
#include "explain_print.hpp"
#include "log.hpp"
#include "migrate/migrate.hpp"
#include "pg/server.hpp"
#include "report_json.hpp"
#include "running_daemon.hpp"

namespace ff::daemon {
namespace {

ExecutionId execution(const Arguments& arguments) {
  const std::string& text = arguments.words().front();
  const auto id = parse_execution_id(text);
  if (!id)
    throw UsageError("explain: " + in_quotes(text) + " is no execution (allowed: {fp:PARTITION}:UUID)");
  return *id;
}

std::vector<explain::Member> family(const config::Config& config, const ExecutionId& id) {
  std::vector<explain::Member> all;
  for (const config::Reconciler& its : config.reconcilers)
    all.push_back({reconcile::find_reconciler(its.name), its.enabled, scope_of(config, its, {id.partition})});
  return all;
}

// Nothing in the database tells a role without pg_read_all_stats how old a transaction is; a daemon has seen it for so long.
void learn_since_when_it_is_held(explain::Facts& facts, const nlohmann::ordered_json& rows, UnixMillis now) {
  for (const auto& row : rows) {
    if (row.at("execution") != to_string(facts.id)) continue;
    const auto since = facts.now + (unix_millis(row.at("held_since_ms").get<std::int64_t>()) - now);
    for (const auto& its : row.at("holders"))
      for (explain::Holder& holder : facts.holders)
        if (its.at("pid") == holder.pid && its.at("table") == holder.table && !holder.since) {
          holder.since = since;
          holder.as_seen = true;
        }
  }
}

// Where it could not be tried, as on a standby.
void learn_of_upstreams(explain::Facts& facts, const nlohmann::ordered_json& reconciler) {
  if (reconciler.at("reconciler") != "dependency") return;
  for (const auto& row : reconciler.at("quarantine"))
    for (explain::Upstream& upstream : facts.upstreams)
      if (!upstream.passing_on && upstream.undispatched_since &&
          row.at("execution") == to_string(upstream.id))
        upstream.passing_on.emplace().error = row.at("message").get<std::string>();
}

void learn_from_storm(explain::Facts& facts, const nlohmann::ordered_json& storm) {
  for (explain::Inspection& its : facts.inspections) {
    explain::StormHold hold;
    if (its.takes_leases && storm.value("breaker", "") == "open")
      hold.open_for = Milliseconds{storm.value("open_for_ms", std::int64_t{0})};
    hold.queued = storm.value("queued", nlohmann::ordered_json::object())
                      .value(std::string(its.reconciler), std::int64_t{0});
    if (hold.open_for || hold.queued > 0) its.storm = hold;
  }
}

// Of a daemon that answers; in the database nothing tells of it.
void learn_from_daemon(explain::Facts& facts, const Arguments& arguments) {
  const auto status = try_to_ask_running_daemon(arguments);
  if (!status) return;
  const std::string id = to_string(facts.id);
  const UnixMillis now = Clock::system().wall();
  if (const auto storm = status->find("storm"); storm != status->end()) learn_from_storm(facts, *storm);
  for (const auto& reconciler : status->at("reconcilers")) {
    learn_since_when_it_is_held(facts, reconciler.value("held", nlohmann::ordered_json::array()), now);
    learn_of_upstreams(facts, reconciler);
    const auto its = std::ranges::find(facts.inspections, reconciler.at("reconciler").get<std::string>(),
                                       &explain::Inspection::reconciler);
    if (its == facts.inspections.end()) continue;
    for (const auto& row : reconciler.at("quarantine")) {
      if (row.at("execution") != id) continue;
      const auto next_try = facts.now + (unix_millis(row.at("next_try_ms").get<std::int64_t>()) - now);
      if (!its->quarantined || next_try > its->quarantined->next_try)
        its->quarantined =
            explain::Quarantined{row.at("tries").get<int>(), next_try, row.at("message").get<std::string>()};
    }
  }
}

// As a replica would find it; whether it has been released, only that knows.
void see_what_is_held(explain::Facts& facts, pg::Pool& pool, const config::Config& config,
                      const Coverage& coverage) {
  for (explain::Inspection& each : facts.inspections) {
    const std::int64_t most = reconcile::hold_above(each.settings);
    const auto its = std::ranges::find(config.reconcilers, each.reconciler, &config::Reconciler::name);
    if (most == 0 || !each.due() || its == config.reconcilers.end()) continue;
    reconcile::Engine engine(*reconcile::find_reconciler(its->name), scope_of(config, *its, coverage.covered),
                             pool);
    if (engine.backlog(most + 1).due > most) each.held_above = most;
  }
}

explain::Facts facts_of(const ExecutionId& id, const config::Config& config, const pg::Connector& connector) {
  pg::Pool pool(connector, 1, config.database.acquire_timeout);
  const auto members = family(config, id);
  explain::Facts facts;
  bool writable = false;
  Coverage coverage;
  {
    auto connection = pool.acquire();
    writable = pg::server_info(*connection).writable;
    coverage = cover(config.partitions, migrate::flow_partitions(*connection));
    facts = explain::Reader(members, all_partitions(coverage.count)).read(*connection, id);
    const pause::Reading pauses = pause::try_to_read(*connection);
    facts.pauses_unread = pauses.why_unreadable;
    for (explain::Inspection& each : facts.inspections)
      each.pauses = pause::covering(pauses.in_force, each.reconciler);
    // A standby does not know who is on its primary.
    facts.daemon_seen = !writable || !check::replicas(*connection).empty();
    facts.has_partition = facts.id.partition.value < coverage.count;
    facts.covered = std::binary_search(coverage.covered.begin(), coverage.covered.end(), id.partition);
  }
  see_what_is_held(facts, pool, config, coverage);
  if (writable) explain::try_due(facts, pool, members);
  return facts;
}

}  // namespace

int explain_execution(const Arguments& arguments) {
  const ExecutionId id = execution(arguments);
  const config::Config config = load_config(arguments);
  set_up_log({config::LogLevel::error, config.log.format});
  const pg::Connector connector = make_connector(for_reading(config.database));
  explain::Facts facts = facts_of(id, config, connector);
  learn_from_daemon(facts, arguments);
  const Pasted pasted(arguments);
  std::cout << (arguments.has("json") ? dump(explain_json(facts, pasted)) + "\n"
                                      : explain_text(facts, pasted));
  return facts.core ? kDone : kProblem;
}

}  // namespace ff::daemon
