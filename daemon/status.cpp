#include <fmt/format.h>
#include <iostream>

#include "check/replicas.hpp"
#include "commands.hpp"
#include "configuration.hpp"
#include "exit_codes.hpp"
#include "explain/words.hpp"
#include "log.hpp"
#include "migrate/migrate.hpp"
#include "pasted.hpp"
#include "pause/release.hpp"
#include "pg/server.hpp"
#include "report_json.hpp"
#include "running_daemon.hpp"
#include "status_of_daemon.hpp"
#include "way_to_lift.hpp"

namespace ff::daemon {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kMostCounted = 100'000;

struct Database {
  pg::ServerInfo server;
  migrate::State schema;
  int sessions = 0;
  pause::Reading pauses;
  pause::Releases releases;
  std::optional<Coverage> coverage = {};  // where the schema is fit
  Pasted pasted = Pasted();

  bool fit() const { return schema.usable() && reason_against(*coverage).empty(); }
};

using Backlogs = std::vector<std::pair<const config::Reconciler*, reconcile::Backlog>>;

std::string_view word(pause::Reading::Table table) {
  switch (table) {
    case pause::Reading::Table::missing:
      return "missing";
    case pause::Reading::Table::unreadable:
      return "unreadable";
    case pause::Reading::Table::readable:
      return "readable";
  }
  return "missing";
}

std::string_view word(migrate::Origin origin) {
  switch (origin) {
    case migrate::Origin::none:
      return "none";
    case migrate::Origin::ours:
      return "ff-reconciler";
    case migrate::Origin::flowfabric:
      return "flowfabric";
  }
  return "none";
}

// "3.2 s ago", "in 12 s", "-"
std::string relative(const std::optional<UnixMillis>& at, UnixMillis now) {
  return at ? explain::when(*at, now) : "-";
}

// What a replica holds is known to it alone: this is what it would find.
bool is_above(const config::Reconciler& its, const reconcile::Backlog& backlog) {
  const std::int64_t most = reconcile::hold_above(its.settings);
  return its.enabled && most > 0 && backlog.due > most;
}

void print_json(const Database& database, const config::Config& config, const Backlogs& backlogs) {
  const int version = database.schema.schema_version();
  auto reconcilers = ordered_json::array();
  for (const auto& [its, backlog] : backlogs)
    reconcilers.push_back({{"reconciler", its->name},
                           {"enabled", its->enabled},
                           {"paused", !pause::covering(database.pauses.in_force, its->name).empty()},
                           {"above_hold", is_above(*its, backlog)},
                           {"due", backlog.due},
                           {"due_capped", backlog.capped},
                           {"oldest_due_ms", time_json(backlog.oldest_due)},
                           {"next_due_ms", time_json(backlog.next_due)},
                           {"next_due_known_until_ms", time_json(backlog.known_until)}});
  std::cout << dump({{"database_time_ms", count(database.server.now)},
                     {"writable", database.server.writable},
                     {"server_version", database.server.version},
                     {"schema",
                      {{"made_by", word(database.schema.origin)},
                       {"version", version > 0 ? ordered_json(version) : ordered_json()},
                       {"flowfabric_ledger", or_null(database.schema.flowfabric_ledger)},
                       {"flowfabric_annotation", or_null(database.schema.flowfabric_annotation)},
                       {"usable", database.schema.usable()},
                       {"problems", database.schema.problems},
                       {"warnings", database.schema.warnings}}},
                     {"partitions", database.coverage ? coverage_json(*database.coverage) : ordered_json()},
                     {"pool", {{"size", config.database.pool_size}, {"sessions", database.sessions}}},
                     {"pause_table", word(database.pauses.table)},
                     {"pauses", pauses_json(database.pauses.in_force)},
                     {"reconcilers", reconcilers}})
            << '\n';
}

// 150018: "15.18"
std::string dotted(int server_version) {
  return fmt::format("{}.{}", server_version / 10'000, server_version % 10'000);
}

void print_coverage(const Coverage& coverage) {
  std::cout << fmt::format("covers    {} of {} partitions\n", coverage.covered.size(), coverage.count);
  if (!coverage.left_out.empty())
    std::cout << "          left to other daemons: " << format_partitions(coverage.left_out) << '\n';
  if (const std::string problem = reason_against(coverage); !problem.empty())
    std::cout << "          problem: " << problem << '\n';
}

void print_pauses(const Database& database) {
  const pause::Reading& pauses = database.pauses;
  for (const pause::Pause& each : pauses.in_force)
    std::cout << fmt::format("paused    {} {}\n          since {} -> {}\n", pause::subject_of(each),
                             pause::text_of(each, pauses.database_time),
                             explain::when(each.since, pauses.database_time),
                             database.pasted(way_to_lift(each.reconciler)));
  if (pauses.table == pause::Reading::Table::unreadable)
    std::cout << "paused    not known: " << pauses.why_unreadable << '\n';
}

void print_above(const config::Reconciler& its, const Database& database) {
  std::cout << fmt::format(
      "          more than {} rows are due (hold_above): held until it is released -> {}\n",
      reconcile::hold_above(its.settings), database.pasted("ff-reconcilerd resume " + its.name));
  if (const auto last = pause::releasing(database.releases.all, its.name, {}, {}))
    std::cout << fmt::format("          last released by {} {}\n", last->by,
                             explain::when(last->at, database.pauses.database_time));
}

// "lease_expiry", "lease_expiry (off)", "lease_expiry (paused)"
std::string named(const config::Reconciler& its, const Database& database) {
  if (!its.enabled) return its.name + " (off)";
  return its.name + (pause::covering(database.pauses.in_force, its.name).empty() ? "" : " (paused)");
}

void print_text(const Database& database, const config::Config& config, const Backlogs& backlogs) {
  std::cout << fmt::format("database  PostgreSQL {}, {}\n", dotted(database.server.version),
                           database.server.writable ? "writable" : "NOT WRITABLE");
  std::cout << fmt::format("schema    made by {}, {}, {}\n", word(database.schema.origin),
                           migrate::version_text(database.schema),
                           database.schema.usable() ? "fit" : "NOT FIT");
  for (const std::string& problem : database.schema.problems)
    std::cout << "          problem: " << problem << '\n';
  for (const std::string& warning : database.schema.warnings)
    std::cout << "          warning: " << warning << '\n';
  if (database.coverage) print_coverage(*database.coverage);
  std::cout << fmt::format("pool      {} sessions of daemons now, at most {} for each\n", database.sessions,
                           config.database.pool_size);
  print_pauses(database);
  std::cout << '\n';
  std::cout << fmt::format("{:<34}{:>10}  {:>14}  {:>16}\n", "reconciler", "due now", "oldest due",
                           "next due");
  for (const auto& [its, backlog] : backlogs) {
    std::cout << fmt::format("{:<34}{:>10}  {:>14}  {:>16}\n", named(*its, database),
                             fmt::format("{}{}", backlog.due, backlog.capped ? "+" : ""),
                             relative(backlog.oldest_due, backlog.database_time),
                             explain::next(backlog.next_due, backlog.known_until, backlog.database_time));
    if (is_above(*its, backlog)) print_above(*its, database);
  }
}

int sessions_of_daemons(pg::Connection& connection) {
  int sum = 0;
  for (const check::Replicas& some : check::replicas(connection)) sum += some.sessions;
  return sum;
}

int status_of_database(const Arguments& arguments) {
  const config::Config config = load_config(arguments);
  set_up_log({config::LogLevel::error, config.log.format});
  const pg::Connector connector = make_connector(for_reading(config.database));
  pg::Pool pool(connector, 1, config.database.acquire_timeout);

  Database database;
  {
    auto connection = pool.acquire();
    database = {pg::server_info(*connection), migrate::inspect(*connection), sessions_of_daemons(*connection),
                pause::try_to_read(*connection), pause::try_to_read_releases(*connection)};
    if (database.schema.usable())
      database.coverage = cover(config.partitions, migrate::flow_partitions(*connection));
  }
  Backlogs backlogs;
  if (database.coverage) {
    for (const config::Reconciler& its : config.reconcilers) {
      const reconcile::Reconciler& reconciler = *reconcile::find_reconciler(its.name);
      reconcile::Engine engine(reconciler, scope_of(config, its, database.coverage->covered), pool);
      backlogs.emplace_back(&its, engine.backlog(kMostCounted));
    }
  }
  database.pasted = Pasted(arguments);
  if (arguments.has("json"))
    print_json(database, config, backlogs);
  else
    print_text(database, config, backlogs);
  return database.fit() && database.server.writable ? kDone : kProblem;
}

}  // namespace

int status(const Arguments& arguments) {
  if (!arguments.has("url")) return status_of_database(arguments);
  if (arguments.has("database-url"))
    throw UsageError("status: --url asks a daemon and --database-url a database: one of the two");
  return ask_running_daemon(arguments, [&](const ordered_json& said) {
    std::cout << (arguments.has("json") ? dump(said) + '\n'
                                        : status_of_daemon(said, Clock::system().wall(), Pasted(arguments)));
    const auto& state = said.at("state");
    return state == "ready" || state == "recovering" ? kDone : kProblem;
  });
}

}  // namespace ff::daemon
