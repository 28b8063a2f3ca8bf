#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>

#include "base/printable.hpp"
#include "check/plans.hpp"
#include "check/replicas.hpp"
#include "check/server.hpp"
#include "check/sessions.hpp"
#include "check/tables.hpp"
#include "check/ways.hpp"
#include "commands.hpp"
#include "configuration.hpp"
#include "exit_codes.hpp"
#include "grants.hpp"
#include "log.hpp"
#include "pasted.hpp"
#include "pause/release.hpp"
#include "pg/listener.hpp"
#include "report_json.hpp"
#include "way_to_lift.hpp"

namespace ff::daemon {
namespace {

using check::Line;
using check::Lines;
using check::Verdict;
using namespace std::chrono_literals;

constexpr Milliseconds kLongTransaction = 60s;
constexpr std::int64_t kOldSnapshot = 5'000'000;  // transactions
constexpr Milliseconds kLongestEcho = 3s;

// At most, with this configuration.
int sessions_of_daemon(const config::Config& config) {
  return config.database.pool_size + kBesidePool;
}

// Which of them has room for the fewest sessions, and how that is raised. Neither a role's limit nor a database's holds for a superuser.
// $1 how many are wanted
constexpr std::string_view kSessionLimits = R"sql(
SELECT what, allowed::bigint AS allowed, next
  FROM pg_roles r
  JOIN pg_database d ON d.datname = current_database()
 CROSS JOIN LATERAL (SELECT current_setting('superuser_reserved_connections')::integer
                            + coalesce(current_setting('reserved_connections', true), '0')::integer AS reserved) kept
 CROSS JOIN LATERAL (VALUES
       (format('the role %I', r.rolname), CASE WHEN NOT r.rolsuper AND r.rolconnlimit >= 0 THEN r.rolconnlimit END,
        format('ALTER ROLE %I CONNECTION LIMIT %s;', r.rolname, $1)),
       (format('the database %I', d.datname), CASE WHEN NOT r.rolsuper AND d.datconnlimit >= 0 THEN d.datconnlimit END,
        format('ALTER DATABASE %I CONNECTION LIMIT %s;', d.datname, $1)),
       ('the server', current_setting('max_connections')::integer - reserved,
        format('ALTER SYSTEM SET max_connections = %s; -- and restart the server', $1 + reserved))) AS limits (what, allowed, next)
 WHERE r.rolname = session_user
 ORDER BY allowed
 LIMIT 1)sql";

/// Prints each line as soon as it is known, and remembers the worst.
class Report {
 public:
  Report(bool json, Pasted pasted) : json_(json), pasted_(std::move(pasted)) {}

  void add(const Lines& lines) {
    for (const Line& line : lines) {
      ++count_[static_cast<std::size_t>(line.verdict)];
      std::cout << (json_ ? json_of(line) : text_of(line)) << std::flush;
    }
  }

  /// What asks the database, about a reconciler where one is named: if it fails, that is the answer.
  template <typename Ask>
  bool ask(std::string_view check, Ask ask, std::string_view reconciler = "it") {
    try {
      add(ask());
      return true;
    } catch (const pg::Error& error) {
      if (error.connection_lost() || error.kind() == pg::Error::Kind::timeout) throw;
      add({{check, Verdict::problem,
            fmt::format("{} could not be checked: {}", reconciler, printable(error.what())),
            "mend what the other lines name, then run check-db again"}});
      return false;
    } catch (const migrate::UnusablePartitions& error) {  // since the schema was looked at
      add({{check, Verdict::problem, error.what(), "mend ff_partition_config, then run check-db again"}});
      return false;
    }
  }

  /// The last line, for people.
  int end() {
    const auto problems = count_[static_cast<std::size_t>(Verdict::problem)];
    const auto warnings = count_[static_cast<std::size_t>(Verdict::warning)];
    if (!json_)
      std::cout << fmt::format("\n{} problem{}, {} warning{}\n", problems, problems == 1 ? "" : "s", warnings,
                               warnings == 1 ? "" : "s");
    return problems == 0 ? kDone : kProblem;
  }

 private:
  std::string json_of(const Line& line) const {
    return dump({{"check", line.check},
                 {"verdict", name(line.verdict)},
                 {"text", line.text},
                 {"next", line.next.empty() ? nlohmann::ordered_json()
                                            : nlohmann::ordered_json(pasted_(line.next))}}) +
           "\n";
  }
  std::string text_of(const Line& line) const {
    const std::string verdict =
        line.verdict == Verdict::problem ? "PROBLEM" : std::string(name(line.verdict));
    std::string text = fmt::format("{:<9}{:<18} {}\n", verdict, line.check, line.text);
    if (!line.next.empty()) text += fmt::format("{:<28}-> {}\n", "", pasted_(line.next));
    return text;
  }

  const bool json_;
  const Pasted pasted_;
  std::array<int, 4> count_{};
};

/// The checks, one after the other; later ones rely on what earlier ones have found.
class Checks {
 public:
  Checks(const config::Config& config, Report& report)
      : config_(config),
        report_(report),
        sessions_(sessions_of_daemon(config)),
        connector_(make_connector(by_any_server(config.database))),
        connection_(connect(make_connector(config.database))) {}

  void all() {
    bool writable = true;
    report_.ask("writable", [&] {
      Lines lines = check::server(connection_);
      writable = lines.front().verdict == Verdict::fine;
      return lines;
    });
    report_.ask("tls", [&] {
      return check::encryption(connection_, pg::parse_conninfo(config_.database.url).value("sslmode"));
    });
    report_.ask("encoding", [&] { return check::encoding(connection_); });
    report_.ask("connections", [&] { return connections(); });
    report_.ask("locked_tables", [&] { return check::locked_tables(connection_); });
    report_.ask("privileges", [&] { return privileges(); });
    const bool readable = report_.ask("schema", [&] { return schema(); });
    if (readable && usable_) tables();
    if (readable && usable_) report_.ask("pauses", [&] { return pauses(); });
    if (readable && usable_) report_.ask("holds", [&] { return holds(); });
    report_.ask("strangers", [&] { return check::strangers(connection_); });
    report_.ask("listen", [&] { return listen(writable); });
    report_.ask("long_transactions", [&] { return check::long_transactions(connection_, kLongTransaction); });
    report_.ask("oldest_snapshot", [&] { return check::oldest_snapshot(connection_, kOldSnapshot); });
    report_.ask("autovacuum", [&] { return check::autovacuum(connection_); });
    report_.ask("statistics", [&] { return check::statistics(connection_); });
    report_.ask("dead_rows", [&] { return check::dead_rows(connection_); });
  }

 private:
  pg::Connection connect(const pg::Connector& as_the_daemon) {
    const auto deadline = [&] { return Clock::system().now() + config_.database.acquire_timeout; };
    std::optional<pg::Connection> connection;
    try {
      connection.emplace(as_the_daemon.connect(deadline()));
    } catch (const pg::Error& error) {
      if (!error.not_writable()) throw;
      connection.emplace(connector_.connect(deadline()));
    }
    report_.add({{"reachable", Verdict::fine, printable(connection->description())}});
    return std::move(*connection);
  }

  // With less it works, more slowly: who finds no place waits for another. With one, whoever comes first keeps it: it works or
  // it listens.
  Lines connections() {
    const pg::Result result = connection_.execute(kSessionLimits, pg::Params::of(std::int32_t{sessions_}));
    const pg::Row row = result.one();
    const auto allowed = row.get<std::int64_t>("allowed");
    const std::string text = fmt::format("{} has room for {} sessions, and a daemon takes up to {}",
                                         printable(row.get<std::string>("what")), allowed, sessions_);
    if (allowed >= sessions_) return {{"connections", Verdict::fine, text}};
    return {{"connections", allowed > 1 ? Verdict::warning : Verdict::problem, text,
             printable(row.get<std::string>("next"))}};
  }

  Lines schema() {
    const migrate::State state = migrate::inspect(connection_);
    usable_ = state.usable();
    return check::schema(connection_, state);
  }

  void tables() {
    report_.ask("indexes", [&] { return check::indexes(connection_); });
    report_.ask("triggers", [&] { return check::triggers(connection_); });
    report_.ask("row_triggers", [&] { return check::row_triggers(connection_, written()); });
    if (!report_.ask("partitions", [&] { return partitions(); })) return;
    report_.ask("replicas", [&] { return check::replicas(check::replicas(connection_), count_); });
    plans();
  }

  Lines partitions() {
    const Coverage coverage = cover(config_.partitions, migrate::flow_partitions(connection_));
    covered_ = coverage.covered;
    count_ = coverage.count;
    const std::string text =
        fmt::format("{} of {} are covered by this configuration", covered_.size(), coverage.count);
    if (const std::string reason = reason_against(coverage); !reason.empty())
      return {{"partitions", Verdict::problem, reason,
               fmt::format("partitions: all # or some of 0-{}", coverage.count - 1)}};
    if (coverage.left_out.empty()) return {{"partitions", Verdict::fine, text}};
    return {{"partitions", Verdict::fine, text + ", the others are " + format_partitions(coverage.left_out)}};
  }

  std::vector<const reconcile::Reconciler*> enabled() const {
    std::vector<const reconcile::Reconciler*> found;
    for (const config::Reconciler& its : config_.reconcilers)
      if (its.enabled) found.push_back(reconcile::find_reconciler(its.name));
    return found;
  }

  // The tables that these do more to than read.
  std::vector<std::string> written() const {
    std::vector<std::string> tables;
    for (const reconcile::Privileges& need : needs_of(enabled()))
      if (need.names != "SELECT") tables.emplace_back(need.table);
    return tables;
  }

  Lines privileges() {
    const auto role = connection_.execute("SELECT current_user::text").one().get<std::string>(0);
    Lines lines;
    const auto add = [&](const Needs& needs, Verdict verdict, std::string_view who) {
      for (const Grant& grant : missing(connection_, needs)) {
        std::string next = statements(connection_, {grant}, role);
        if (!next.empty()) next.pop_back();
        lines.push_back({"privileges", verdict,
                         fmt::format("{} lacks {} on {}, which {}", printable(role), grant.privileges,
                                     printable(grant.object), who),
                         printable(next)});
      }
      std::vector<std::string> tables;
      for (const reconcile::Privileges& need : needs) tables.emplace_back(need.table);
      const Lines hidden = check::row_security(connection_, tables, verdict, who);
      lines.insert(lines.end(), hidden.begin(), hidden.end());
    };
    const Needs of_daemon = needs_of(enabled());
    const auto objects = grants(connection_, of_daemon).size();
    if (objects == 0) return {{"privileges", Verdict::skipped, "there are no tables to have them on"}};
    add(of_daemon, Verdict::problem, "the enabled reconcilers need");
    if (lines.empty())
      add(needs_of_reading(), Verdict::warning, "status, explain, audit and lease-events need");
    if (lines.empty())
      lines.push_back(
          {"privileges", Verdict::fine,
           fmt::format("{} may do what it needs, on {} tables and sequences", printable(role), objects)});
    return lines;
  }

  void plans() {
    int most_locks = 0;
    for (const config::Reconciler& its : config_.reconcilers) {
      if (!its.enabled) continue;
      report_.ask(
          "scan", [&] { return plan(its, most_locks); }, its.name);
    }
    if (most_locks == 0)
      return report_.add({{"locks", Verdict::skipped, "no scan could be looked at for the locks it takes"}});
    // So many may be at work at a time: its threads and their helpers, each over one connection.
    const int at_work = std::min(config_.database.pool_size, config_.threads + config_.helpers);
    report_.ask("locks", [&] { return check::lock_table(connection_, at_work, most_locks); });
  }

  Lines plan(const config::Reconciler& its, int& most_locks) {
    const reconcile::Reconciler& reconciler = *reconcile::find_reconciler(its.name);
    const reconcile::Scope scope = scope_of(config_, its, covered_);
    check::Plans plans = check::plans_of(connection_, reconciler, scope);
    for (const reconcile::Reconciler& companion : reconciler.companions)
      plans.add(check::plans_of(connection_, companion, scope));
    most_locks = std::max(most_locks, plans.most_locks);
    Lines lines;
    for (const auto& [table, index] : check::unused(connection_, reconciler, plans.indexes))
      lines.push_back({"scan", Verdict::problem, fmt::format("{} does not use {}", its.name, index),
                       fmt::format("do what `indexes` says of it, if anything, then ANALYZE {};", table)});
    for (const std::string& table : plans.wholly_read)
      lines.push_back({"scan", Verdict::problem, fmt::format("{} reads all of {}", its.name, table),
                       "make the indexes that are missing, then ANALYZE " + table + ";"});
    if (lines.empty())
      lines.push_back(
          {"scan", Verdict::fine, fmt::format("{} uses {}", its.name, fmt::join(plans.indexes, ", "))});
    return lines;
  }

  // Neither is needed to run.
  Lines pauses() {
    using Table = pause::Reading::Table;
    const pause::Reading reading = pause::read(connection_);
    if (reading.table == Table::missing)
      return {{"pauses", Verdict::warning, "there is no table ff_reconciler_pause: nothing can be paused",
               check::migrate_up_as_owner()}};
    if (reading.table == Table::unreadable) {
      const auto role = connection_.execute("SELECT current_user::text").one().get<std::string>(0);
      std::string next = statements(connection_, missing(connection_, needs_of_seeing_pauses()), role);
      next.pop_back();
      return {{"pauses", Verdict::warning,
               "the daemon does not see what is paused: " + printable(role) +
                   " may not SELECT on ff_reconciler_pause",
               printable(next)}};
    }
    Lines lines;
    for (const pause::Pause& each : reading.in_force)
      lines.push_back({"pauses", Verdict::warning,
                       pause::subject_of(each) + " paused " + pause::text_of(each, reading.database_time),
                       way_to_lift(each.reconciler)});
    if (lines.empty()) lines.push_back({"pauses", Verdict::fine, "no reconciler is paused"});
    return lines;
  }

  // Of no use where nothing is ever held.
  Lines holds() {
    using Table = pause::Reading::Table;
    const auto limited = [](const config::Reconciler& its) {
      return reconcile::hold_above(its.settings) > 0;
    };
    if (std::ranges::none_of(config_.reconcilers, limited)) return {};
    const pause::Releases releases = pause::try_to_read_releases(connection_);
    if (releases.table == Table::readable)
      return {{"holds", Verdict::fine, "what is held because of hold_above can be released"}};
    return {{"holds", Verdict::warning,
             releases.table == Table::missing
                 ? "there is no table ff_reconciler_release: what is held because of hold_above cannot be "
                   "released"
                 : "the daemon does not see what is released: " + releases.why_unreadable,
             check::migrate_up_as_owner() + ", then migrate grants"}};
  }

  Lines listen(bool writable) {
    if (!writable)
      return {{"listen", Verdict::skipped, "a server that takes no writes has no notifications"}};
    pg::Listener listener(connector_.connect(Clock::system().now() + config_.database.acquire_timeout));
    return check::notifications(listener, connection_, kLongestEcho, sessions_);
  }

  const config::Config& config_;
  Report& report_;
  const int sessions_;  // of a daemon with this configuration
  const pg::Connector connector_;
  pg::Connection connection_;
  Partitions covered_;
  int count_ = 0;
  bool usable_ = false;
};

}  // namespace

int check_db(const Arguments& arguments) {
  const config::Config config = load_config(arguments);
  set_up_log({config::LogLevel::error, config.log.format});
  Report report(arguments.has("json"), Pasted(arguments));
  try {
    Checks(config, report).all();
  } catch (const pg::Error& error) {
    const bool away = error.connection_lost() || error.not_writable() || error.timed_out();
    if (!away) throw;
    report.add({{"reachable", Verdict::problem, printable(error.what()),
                 check::way_to_reach(error, sessions_of_daemon(config))}});
    report.end();
    return kUnreachable;
  }
  return report.end();
}

}  // namespace ff::daemon
