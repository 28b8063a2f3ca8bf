#include "database_probe.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/moment.hpp"
#include "check/sessions.hpp"
#include "check/ways.hpp"
#include "migrate/migrate.hpp"
#include "pg/server.hpp"
#include "pg/transaction.hpp"

namespace ff::daemon {

using supervisor::Availability;
using supervisor::Observation;

namespace {

constexpr Milliseconds kBetweenWarnings{60'000};

// What takes longer is not answered any more: the server, or the way to it, stands still.
SteadyTime answer_wanted_by() {
  return Clock::system().now() + Availability::kLongestAnswer;
}

// While it lives all statements over the connection together have as long as one answer.
class Within {
 public:
  explicit Within(pg::Connection& connection) : connection_(connection) {
    connection.end_all_by(answer_wanted_by());
  }
  ~Within() { connection_.end_all_by(std::nullopt); }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  pg::Connection& connection_;
};

// Whoever refuses us is there, and what it was sent before may still be answered.
bool is_silence(const pg::Error& error) {
  return error.sqlstate().empty() &&
         (error.kind() == pg::Error::Kind::timeout || error.connection_lost() || error.not_writable());
}

// Of the tables in which leases are renewed, and by which is concluded whose they are. Run with the session's own path.
constexpr std::string_view kChildren = R"sql(
SELECT pg_catalog.concat_ws('/',
         (SELECT pg_catalog.count(*)
            FROM pg_catalog.pg_inherits i
           WHERE i.inhparent OPERATOR(pg_catalog.=)
                   pg_catalog.to_regclass({schema_text} OPERATOR(pg_catalog.||) 'ff_attempt')::pg_catalog.oid
             AND NOT i.inhdetachpending),
         (SELECT pg_catalog.count(*)
            FROM pg_catalog.pg_inherits i
           WHERE i.inhparent OPERATOR(pg_catalog.=)
                   pg_catalog.to_regclass({schema_text} OPERATOR(pg_catalog.||) 'ff_exec_core')::pg_catalog.oid
             AND NOT i.inhdetachpending)))sql";

// A lock that somebody has on a table says nothing about the server.
bool is_of_the_server(const pg::Error& error) {
  return error.connection_lost() || (error.timed_out() && !error.table_locked());
}

}  // namespace

Observation DatabaseProbe::operator()() {
  try {
    return probe();
  } catch (const pg::Error& error) {
    if (is_connected_) on_error_(error);
    verified_on_.reset();
    if (!has_answered_ && is_silence(error)) pool_.abandon_all();
    Observation seen;
    seen.found = error.not_writable() ? Observation::Found::read_only : Observation::Found::unreachable;
    seen.reason = error.what();
    seen.authentication = error.authentication();
    return seen;
  } catch (const std::exception& error) {
    Observation seen;
    seen.reason = std::string("internal error: ") + error.what();
    return seen;
  }
}

Observation DatabaseProbe::probe() {
  has_answered_ = false;
  std::optional<pg::PooledConnection> connection(acquire());
  std::optional<pg::ServerInfo> server = ask(*connection);
  if (server && !server->role_exists) give_up_sessions(**connection);
  if (!server || !server->writable || !server->role_exists) {
    // That a connection broke, or that its server takes no writes any more, or its role is gone, does not say how things are now.
    connection.reset();
    on_connection_lost_();
    pool_.discard_all();
    server = ask_anew(connection);
  }
  // What the one before was sent is not waited for: it may stand still, and say nothing to those who wait.
  if (last_server_ && *last_server_ != server->started_at) {
    const UnixMillis met = server->started_at;
    connection.reset();
    on_connection_lost_();
    // First, so that nobody who connects meanwhile brings a session on the one before.
    pool_.keep_to(met);
    pool_.abandon_all();
    server = ask_anew(connection);
    if (server->started_at != met)
      throw pg::Error(pg::Error::Kind::connection, "it is now one server that answers, now another");
  }
  Observation seen;
  seen.reading = reading_;
  seen.found = Observation::Found::writable;
  meet(**connection, *server, seen);
  const bool was_fit = verified_on_ == seen.server_started_at;
  look_at_schema(**connection, seen);
  if (seen.found == Observation::Found::writable) look_at_locks(**connection, seen);
  if (seen.found == Observation::Found::writable && also_read_) also_read_(**connection);
  if ((*connection)->lost())
    throw pg::Error(pg::Error::Kind::connection, "the connection broke under the check");
  if (was_fit && seen.found == Observation::Found::writable) verify_in_time(**connection, seen);
  seen.schema_version = schema_version_;
  return seen;
}

// Where two servers take writes, sessions may be on either, and this is all that tells of it.
void DatabaseProbe::meet(const pg::Connection& connection, const pg::ServerInfo& server, Observation& seen) {
  seen.server_started_at = server.started_at;
  seen.server_uptime = server.now - server.started_at;
  seen.server = connection.server() + ", started " + format_moment(server.started_at) + ",";
  const SteadyTime now = Clock::system().now();
  if (last_server_ && *last_server_ != server.started_at && now - told_of_another_ >= kBetweenWarnings) {
    spdlog::warn("the server is another than before, or was started anew: {}, started {}",
                 connection.server(), format_moment(server.started_at));
    told_of_another_ = now;
  }
  last_server_ = server.started_at;
  pool_.keep_to(server.started_at);
  if (on_server_) on_server_(server.started_at);
}

bool DatabaseProbe::doubt_schema() {
  const SteadyTime now = Clock::system().now();
  SteadyTime::rep before = doubted_at_;
  if (now - SteadyTime{SteadyTime::duration{before}} < kDoubtAgain) return false;
  if (!doubted_at_.compare_exchange_strong(before, now.time_since_epoch().count())) return false;
  is_doubted_ = true;
  return true;
}

// A role that was dropped and made anew (as who deploys may do it) has another number, by which its sessions are not known: each
// statement over a table is refused, for as long as they live. They are about to be replaced; a pooler would lend them again.
void DatabaseProbe::give_up_sessions(pg::Connection& connection) {
  const SteadyTime now = Clock::system().now();
  if (now - told_of_role_ >= kBetweenWarnings) {
    spdlog::warn("the role of the sessions has been dropped, and new ones take their place: {}",
                 connection.description());
    told_of_role_ = now;
  }
  if (connection.behind_pooler()) pg::end_sessions_of_dropped_role(connection, answer_wanted_by());
}

// Of what fails here the pool tells its observer.
pg::PooledConnection DatabaseProbe::acquire() {
  is_connected_ = false;
  pg::PooledConnection connection = pool_.acquire_first();
  is_connected_ = true;
  return connection;
}

pg::ServerInfo DatabaseProbe::server_info(pg::Connection& connection) {
  const SteadyTime sent = Clock::system().now();
  const pg::ServerInfo server = pg::server_info(connection, answer_wanted_by());
  has_answered_ = true;
  reading_ = reconcile::TimeReading{sent, Clock::system().now(), server.now};
  return server;
}

// Nothing: the connection is of no use any more.
std::optional<pg::ServerInfo> DatabaseProbe::ask(pg::PooledConnection& connection) {
  try {
    return server_info(*connection);
  } catch (const pg::Error& error) {
    if (!error.connection_lost()) throw;
    return std::nullopt;
  }
}

pg::ServerInfo DatabaseProbe::ask_anew(std::optional<pg::PooledConnection>& connection) {
  connection.emplace(acquire());
  const pg::ServerInfo server = server_info(**connection);
  if (!server.writable)
    throw pg::Error(pg::Error::Kind::not_writable, (*connection)->description() + " takes no writes");
  if (!server.role_exists)
    throw pg::Error(pg::Error::Kind::connection,
                    "the role of " + (*connection)->description() +
                        " has been dropped, and a pooler goes on lending sessions from before: RECONNECT in "
                        "PgBouncer's console ends them");
  return server;
}

// What the role may not read is no outage: somebody has to grant it.
void DatabaseProbe::look_at_schema(pg::Connection& connection, Observation& seen) {
  try {
    if (verified_on_ != seen.server_started_at) verify_schema(connection, seen);
    if (seen.found == Observation::Found::writable) count_partitions(connection, seen);
  } catch (const pg::Error& error) {
    if (error.connection_lost() || !error.lacks_privilege()) throw;
    on_error_(error);
    verified_on_.reset();
    seen.found = Observation::Found::schema_outdated;
    seen.reason = std::string(error.what()) + "; " + check::way_to_permission(error);
  }
}

// What cannot be counted is no outage, and no doubt.
std::string DatabaseProbe::count_children(pg::Connection& connection) {
  try {
    return connection.execute(kChildren).one().get<std::string>(0);
  } catch (const pg::Error& error) {
    if (error.connection_lost()) throw;
    on_error_(error);
    return {};
  }
}

bool DatabaseProbe::has_other_children(pg::Connection& connection) {
  const std::string children = count_children(connection);
  if (children_.empty()) children_ = children;
  return !children.empty() && children != children_;
}

// The children are counted first: one that goes meanwhile is missing to what is verified, or to the next count.
void DatabaseProbe::verify_schema(pg::Connection& connection, Observation& seen) {
  std::string children = count_children(connection);
  const migrate::State schema = migrate::inspect(connection);
  schema_version_ = schema.schema_version();
  if (verified_on_ != seen.server_started_at) warned_of_.clear();
  for (const std::string& warning : schema.warnings)
    if (std::ranges::find(warned_of_, warning) == warned_of_.end()) spdlog::warn("schema: {}", warning);
  warned_of_ = schema.warnings;
  if (schema.usable()) {
    verified_on_ = seen.server_started_at;
    verified_at_ = Clock::system().now();
    children_ = std::move(children);
    return;
  }
  verified_on_.reset();
  // What is amiss may be a setting of the role, such as its search_path, which a session has from its beginning.
  pool_.discard_all();
  seen.found = Observation::Found::schema_outdated;
  for (const std::string& problem : schema.problems)
    seen.reason += (seen.reason.empty() ? "" : "; ") + problem;
}

// Somebody may have detached a hash child, which is seen at the next check where leases are in it, or dropped a column. What was fit
// stays so where it cannot be looked at, because a table is locked, a privilege is gone or the server is slow: that is no outage.
// Leases are taken only while the last check is recent, so all of its statements together get no longer than one answer, and come
// last: the connection may go with them.
void DatabaseProbe::verify_in_time(pg::Connection& connection, Observation& seen) {
  const Within answer(connection);
  const bool is_doubted = is_doubted_.exchange(false);
  const bool is_due = is_doubted || Clock::system().now() - verified_at_ >= verify_again_;
  if (!is_due && !has_other_children(connection)) return;
  verified_at_ = Clock::system().now();
  if (is_doubted) pool_.discard_all();
  try {
    verify_schema(connection, seen);
  } catch (const pg::Error& error) {
    if (is_doubted) is_doubted_ = true;
    if (error.connection_lost()) throw;
    on_error_(error);
  }
}

void DatabaseProbe::look_at_locks(pg::Connection& connection, Observation& seen) {
  if (!are_locks_doubted_.exchange(false)) return;
  const Within answer(connection);
  try {
    const auto locked = check::locked_to_workers(connection);
    if (!locked) return;
    seen.locked = locked->name;
    seen.all_locked = locked->all;
  } catch (const pg::Error& error) {
    if (error.connection_lost()) throw;
    on_error_(error);
  }
  are_locks_doubted_ = true;
}

void DatabaseProbe::count_partitions(pg::Connection& connection, Observation& seen) {
  int count = 0;
  try {
    // For its lock_timeout.
    pg::Transaction transaction(connection, {.at_most = Availability::kLongestAnswer});
    count = migrate::flow_partitions(connection, answer_wanted_by());
    why_uncounted_.clear();
  } catch (const migrate::UnusablePartitions& problem) {
    verified_on_.reset();  // it was usable when the schema was verified
    seen.found = Observation::Found::schema_outdated;
    seen.reason = problem.what();
    return;
  } catch (const pg::Error& error) {
    if (!coverage_ || is_of_the_server(error)) throw;
    return keep_count(connection, error, seen);
  }
  if (Coverage found = cover(partitions_, count); coverage_ != found) {
    on_coverage_(found);
    coverage_ = std::move(found);
  }
  seen.reason = reason_against(*coverage_);
  if (!seen.reason.empty()) seen.found = Observation::Found::schema_outdated;
}

// The server is there, and what was counted last is no worse than before where somebody has locked the table, or has taken
// away the privilege to count, which verifying the schema wants, too. Anything else is a schema that is not fit any more.
void DatabaseProbe::keep_count(pg::Connection& connection, const pg::Error& error, Observation& seen) {
  on_error_(error);
  try {
    if (!error.table_locked()) verify_schema(connection, seen);
  } catch (const pg::Error& again) {
    if (is_of_the_server(again)) throw;
  }
  if (seen.found != Observation::Found::writable) return;
  seen.reason = "the partitions are not counted any more: ";
  if (error.table_locked()) seen.reason += "ff_partition_config is locked, `check-db` says by whom: ";
  seen.reason += error.what();
  if (error.lacks_privilege()) seen.reason += "; " + check::way_to_permission(error);
  if (std::exchange(why_uncounted_, seen.reason) != seen.reason) spdlog::warn("{}", seen.reason);
}

}  // namespace ff::daemon
