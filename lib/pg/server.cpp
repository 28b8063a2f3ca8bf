#include "pg/server.hpp"

#include <libpq-fe.h>

namespace ff::pg {
namespace {

constexpr std::string_view kServerInfo = R"sql(
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms,
       floor(extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint AS started_at_ms,
       NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off' AS writable,
       current_setting('server_version_num')::integer AS version
)sql";

}  // namespace

ServerInfo server_info(Connection& connection, std::optional<SteadyTime> deadline) {
  const Result result =
      deadline ? connection.execute(kServerInfo, {}, *deadline) : connection.execute(kServerInfo);
  const Row row = result.one();
  return {unix_millis(row.get<std::int64_t>("now_ms")), unix_millis(row.get<std::int64_t>("started_at_ms")),
          row.get<bool>("writable"), row.get<std::int32_t>("version")};
}

std::string libpq_version() {
  constexpr int kMajor = 10'000;
  return std::to_string(PQlibVersion() / kMajor) + '.' + std::to_string(PQlibVersion() % kMajor);
}

}  // namespace ff::pg
