#include "pause/release.hpp"

#include "base/printable.hpp"
#include "pg/transaction.hpp"

namespace ff::pause {
namespace {

constexpr Milliseconds kLongestReading{1000};

constexpr std::string_view kReleaseTable = R"(
  SELECT to_regclass({schema_text} || 'ff_reconciler_release') IS NOT NULL AS is_there,
         coalesce(has_table_privilege(to_regclass({schema_text} || 'ff_reconciler_release'), 'SELECT'), false)
           AS is_readable)";

// There are no more reconcilers than that. One that was dated in the future by hand would release for ever.
constexpr std::string_view kReleases = R"(
  SELECT reconciler, released_by, released_at_ms
    FROM {schema}.ff_reconciler_release
   WHERE released_at_ms BETWEEN 0 AND extract(epoch FROM clock_timestamp()) * 1000 + 60000
   ORDER BY reconciler
   LIMIT 100)";

// $1 names, $2 who
constexpr std::string_view kRelease = R"(
  INSERT INTO {schema}.ff_reconciler_release (reconciler, released_by, released_at_ms)
  SELECT name, $2 || ', database role ' || session_user, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM unnest($1) AS name
   ORDER BY name
  ON CONFLICT (reconciler) DO UPDATE
     SET released_by = excluded.released_by, released_at_ms = excluded.released_at_ms)";

Releases read_all(pg::Connection& connection) {
  pg::Transaction transaction(connection, {.at_most = kLongestReading});
  // The server is the one to say that it took too long, unless it stands still.
  const SteadyTime deadline = Clock::system().now() + 2 * kLongestReading;
  Releases found;
  {
    const pg::Result result = connection.execute(kReleaseTable, {}, deadline);
    const pg::Row table = result.one();
    if (!table.get<bool>("is_there")) return found;
    if (!table.get<bool>("is_readable")) {
      found.table = Reading::Table::unreadable;
      found.why_unreadable =
          "this role may not read ff_reconciler_release; `migrate grants` prints what it needs";
      return found;
    }
  }
  for (const pg::Row row : connection.execute(kReleases, {}, deadline))
    found.all.push_back({row.get<std::string>("reconciler"), printable(row.get<std::string>("released_by")),
                         unix_millis(row.get<std::int64_t>("released_at_ms"))});
  found.table = Reading::Table::readable;
  transaction.rollback();
  return found;
}

}  // namespace

Releases try_to_read_releases(pg::Connection& connection) {
  try {
    return read_all(connection);
  } catch (const pg::Error& error) {
    if (error.connection_lost() || connection.lost()) throw;
    return {.table = Reading::Table::unreadable, .why_unreadable = printable(error.what())};
  }
}

void release(pg::Connection& connection, const std::vector<std::string>& reconcilers, const std::string& by) {
  pg::Transaction transaction(connection);
  transaction.execute(kRelease, pg::Params::of(reconcilers, by));
  transaction.commit();
}

std::optional<Release> releasing(const std::vector<Release>& releases, std::string_view name,
                                 UnixMillis since, Milliseconds interval) {
  std::optional<Release> last;
  for (const Release& each : releases)
    if (each.covers(name) && since - kReleaseReaches - interval <= each.at && (!last || last->at < each.at))
      last = each;
  return last;
}

}  // namespace ff::pause
