#include "pause/pause.hpp"

#include <algorithm>
#include <iterator>

#include "base/duration.hpp"
#include "base/moment.hpp"
#include "base/printable.hpp"
#include "pg/transaction.hpp"

namespace ff::pause {
namespace {

constexpr std::string_view kIsThere = R"(
  SELECT to_regclass({schema_text} || 'ff_reconciler_pause') IS NOT NULL AS is_there,
         coalesce(has_table_privilege(to_regclass({schema_text} || 'ff_reconciler_pause'), 'SELECT'), false)
           AS is_readable,
         floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms)";

// One row without a reconciler where none is paused: it tells the time. There are no more reconcilers than that.
constexpr std::string_view kInForce = R"(
  SELECT p.reconciler, p.paused_by, p.reason, p.paused_at_ms, p.until_ms, clock.now_ms
    FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms) AS clock
    LEFT JOIN {schema}.ff_reconciler_pause p ON (p.until_ms > clock.now_ms) IS NOT FALSE
   ORDER BY p.reconciler = '*' DESC, p.reconciler
   LIMIT 100)";

// $1 names, $2 who, $3 reason, $4 end (null: see $5), $5 length in ms (null: no end)
constexpr std::string_view kPause = R"(
  INSERT INTO {schema}.ff_reconciler_pause (reconciler, paused_by, reason, paused_at_ms, until_ms)
  SELECT name, $2 || ', database role ' || session_user, $3, now_ms, coalesce($4, now_ms + $5)
    FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms) AS clock, unnest($1) AS name
   WHERE (coalesce($4, now_ms + $5) > now_ms) IS NOT FALSE
   ORDER BY name
  ON CONFLICT (reconciler) DO UPDATE
     SET paused_by = excluded.paused_by, reason = excluded.reason, paused_at_ms = excluded.paused_at_ms,
         until_ms = excluded.until_ms)";

// $1 names. With them go those whose end is over, which nobody else removes.
constexpr std::string_view kResume = R"(
  WITH clock AS (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms)
  DELETE FROM {schema}.ff_reconciler_pause p USING clock
   WHERE p.reconciler = ANY ($1) OR p.until_ms <= clock.now_ms
  RETURNING p.reconciler, (p.until_ms > clock.now_ms) IS NOT FALSE AS in_force)";

// A row that was written by hand may say anything; these are the years 1970 to 9999.
UnixMillis plausible(std::int64_t at_ms) {
  constexpr std::int64_t kLast = 253'402'300'799'000;
  return unix_millis(std::clamp<std::int64_t>(at_ms, 0, kLast));
}

}  // namespace

std::vector<Pause> covering(const std::vector<Pause>& pauses, std::string_view name) {
  std::vector<Pause> found;
  std::ranges::copy_if(pauses, std::back_inserter(found), [&](const Pause& p) { return p.covers(name); });
  return found;
}

Reading read(pg::Connection& connection, std::optional<Milliseconds> at_most) {
  pg::Transaction transaction(connection, {.at_most = at_most.value_or(Milliseconds::max())});
  // The server is the one to say that it took too long, unless it stands still.
  const SteadyTime deadline = at_most ? Clock::system().now() + 2 * *at_most : connection.default_deadline();
  Reading reading;
  {
    const pg::Result result = connection.execute(kIsThere, {}, deadline);
    const pg::Row table = result.one();
    reading.database_time = unix_millis(table.get<std::int64_t>("now_ms"));
    if (!table.get<bool>("is_there")) return reading;
    if (!table.get<bool>("is_readable")) {
      reading.table = Reading::Table::unreadable;
      reading.lacks_privilege = true;
      reading.why_unreadable =
          "this role may not read ff_reconciler_pause; `migrate grants` prints what it needs";
      return reading;
    }
  }
  for (const pg::Row row : connection.execute(kInForce, {}, deadline)) {
    const auto now = unix_millis(row.get<std::int64_t>("now_ms"));
    reading.database_time = now;
    if (row.is_null(0)) break;
    Pause pause{.reconciler = row.get<std::string>("reconciler"),
                .by = printable(row.get<std::string>("paused_by")),
                .reason = printable(row.get<std::string>("reason")),
                .since = plausible(row.get<std::int64_t>("paused_at_ms")),
                .until = std::nullopt};
    if (const auto until = row.get<std::optional<std::int64_t>>("until_ms")) pause.until = plausible(*until);
    reading.in_force.push_back(std::move(pause));
  }
  reading.table = Reading::Table::readable;
  transaction.rollback();
  return reading;
}

Reading try_to_read(pg::Connection& connection) {
  constexpr Milliseconds kLongestReading{1000};
  try {
    return read(connection, kLongestReading);
  } catch (const pg::Error& error) {
    if (error.connection_lost() || connection.lost()) throw;
    Reading reading;
    reading.table = Reading::Table::unreadable;
    reading.why_unreadable = printable(error.what());
    return reading;
  }
}

bool pause(pg::Connection& connection, const Wish& wish) {
  const auto end = wish.until ? std::optional(count(*wish.until)) : std::nullopt;
  const auto length = wish.lasting ? std::optional<std::int64_t>(wish.lasting->count()) : std::nullopt;
  pg::Transaction transaction(connection);
  const auto written =
      transaction.execute(kPause, pg::Params::of(wish.reconcilers, wish.by, wish.reason, end, length))
          .affected();
  transaction.commit();
  return written > 0;
}

std::vector<std::string> resume(pg::Connection& connection, const std::vector<std::string>& reconcilers) {
  std::vector<std::string> lifted;
  pg::Transaction transaction(connection);
  for (const pg::Row row : transaction.execute(kResume, pg::Params::of(reconcilers)))
    if (row.get<bool>("in_force")) lifted.push_back(row.get<std::string>("reconciler"));
  transaction.commit();
  return lifted;
}

std::string text_of(const Pause& pause, UnixMillis now) {
  std::string text = "by " + pause.by;
  text += pause.until ? ", until " + format_moment(*pause.until) : ", until it is resumed";
  if (pause.until && *pause.until > now) text += " (in " + spoken_duration(*pause.until - now) + ")";
  return text + ": " + pause.reason;
}

// What is known is plain letters: in a line to paste it can mean nothing else.
std::string resume_line(std::string_view reconciler, bool is_known) {
  if (reconciler == kAll) return "ff-reconcilerd resume all";
  if (is_known) return "ff-reconcilerd resume " + std::string(reconciler);
  return "delete its row from ff_reconciler_pause";
}

std::string subject_of(const Pause& pause) {
  return pause.reconciler == kAll ? "all reconcilers" : printable(pause.reconciler);
}

}  // namespace ff::pause
