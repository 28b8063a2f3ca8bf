#include "pg/server.hpp"

#include <libpq-fe.h>

namespace ff::pg {
namespace {

constexpr std::string_view kServerInfo = R"sql(
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms,
       floor(extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint AS started_at_ms,
       NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off' AS writable,
       current_setting('server_version_num')::integer AS version)sql";

// Of a role that was dropped nobody says the name any more: current_user raises. It is no member of any, not even of itself.
constexpr std::string_view kAndRole =
    ", EXISTS (SELECT FROM pg_roles WHERE pg_has_role(oid, 'MEMBER')) AS role_exists";

// A pooler may run it on another session than the one that was asked before, which may be a good one. Who ends his own does not get
// to those behind it; the others are waited for, or the pooler might lend one that is about to end.
constexpr std::string_view kEndSessions = R"sql(
SELECT pg_terminate_backend(pid, CASE WHEN own THEN 0 ELSE 500 END)
  FROM (SELECT its.pid, its.pid = mine.pid AS own
          FROM pg_stat_get_activity(pg_backend_pid()) mine
          JOIN pg_stat_get_activity(NULL) its USING (usesysid, datid, application_name)
         WHERE NOT EXISTS (SELECT FROM pg_roles WHERE pg_has_role(oid, 'MEMBER'))
         ORDER BY own
        OFFSET 0) AS in_turn)sql";

}  // namespace

// Where somebody has taken the catalogue of roles from us, ours is taken for one that exists.
ServerInfo server_info(Connection& connection, std::optional<SteadyTime> deadline) {
  const auto ask = [&](std::string_view and_more) {
    const Result result = connection.execute(std::string(kServerInfo).append(and_more), {},
                                             deadline.value_or(connection.default_deadline()));
    const Row row = result.one();
    return ServerInfo{unix_millis(row.get<std::int64_t>("now_ms")),
                      unix_millis(row.get<std::int64_t>("started_at_ms")), row.get<bool>("writable"),
                      row.get<std::int32_t>("version"), row.get<bool>("role_exists")};
  };
  try {
    return ask(kAndRole);
  } catch (const Error& error) {
    if (!error.lacks_privilege() || error.connection_lost()) throw;
    return ask(", true AS role_exists");
  }
}

void end_sessions_of_dropped_role(Connection& connection, SteadyTime deadline) {
  try {
    connection.execute(kEndSessions, {}, deadline);
  } catch (const Error&) {
    // As a rule that it has ended.
  }
}

std::string libpq_version() {
  constexpr int kMajor = 10'000;
  return std::to_string(PQlibVersion() / kMajor) + '.' + std::to_string(PQlibVersion() % kMajor);
}

}  // namespace ff::pg
