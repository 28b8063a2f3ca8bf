#include "reconcile/lease_census.hpp"

#include <algorithm>
#include <vector>

#include "pg/transaction.hpp"
#include "reconcile/statements.hpp"

namespace ff::reconcile {
namespace {

// Enough to know the fleet by, and few enough to be counted in some 20 ms.
constexpr std::int64_t kEnoughLeases = 10'000;
// Of a hundred leases, five may be longer than the one that is taken for a long one: a single lease of a day
// would let what was taken hours ago count.
constexpr double kLongerThan = 0.95;

// By ff_attempt_lease_expiry_idx, which has leases only.
constexpr std::string_view kLeases = R"sql(
WITH {clock}
SELECT coalesce(a.worker_instance_id, '') AS holder, count(*) AS leases,
       greatest(max(a.lease_expires_at_ms), (SELECT now_ms FROM clock)) - (SELECT now_ms FROM clock) AS left_ms
  FROM {schema}.ff_attempt a
 WHERE {in_partitions:a} AND a.lease_expires_at_ms IS NOT NULL
 GROUP BY 1)sql";

constexpr std::string_view kFilteredLeases = R"sql(
WITH {clock}
SELECT coalesce(a.worker_instance_id, '') AS holder, count(*) AS leases,
       greatest(max(a.lease_expires_at_ms), (SELECT now_ms FROM clock)) - (SELECT now_ms FROM clock) AS left_ms
  FROM {schema}.ff_attempt a
  JOIN {core_of:a} c ON true
 WHERE {in_partitions:a} AND a.lease_expires_at_ms IS NOT NULL AND {filter:c}
 GROUP BY 1)sql";

// Only of who is active: a cancel leaves its lease, which lapses without saying anything of the network.
constexpr std::string_view kLapsed = R"sql(
WITH {clock}
SELECT coalesce(a.worker_instance_id, '') AS holder, count(*) AS leases
  FROM clock
 CROSS JOIN LATERAL (SELECT l.*
                       FROM {schema}.ff_attempt l
                      WHERE {in_partitions:l} AND l.lease_expires_at_ms <= clock.due_ms
                        AND l.lease_expires_at_ms > {after}
                     OFFSET 0) a
  JOIN {core_of:a} c ON true
 WHERE c.lifecycle_phase = 'active' AND {filter:c}
 GROUP BY 1)sql";

constexpr std::string_view kClaims = R"sql(
/* ff-reconcilerd storm claims */
SELECT coalesce((SELECT max(event_id) FROM {schema}.ff_lease_event), 0) AS newest,
       (SELECT count(*) FROM {schema}.ff_lease_event e
         WHERE e.event_id > $1 AND e.event_type IN ('acquired', 'reclaimed')) AS claims)sql";

pg::Params params_of(const Partitions& partitions, const ScannerFilter& filter, Milliseconds holdoff,
                     std::optional<std::int64_t> after) {
  const auto& tag = filter.instance_tag;
  pg::Params params =
      pg::Params::of(partitions, filter.name_space, tag ? std::optional(tag->key) : std::nullopt,
                     tag ? std::optional(tag->value) : std::nullopt);
  params.add(static_cast<std::int64_t>(holdoff.count()));
  params.add(after);
  return params;
}

pg::Result ask(pg::Connection& connection, const Statement& statement, const Partitions& group,
               const pg::Params& params) {
  pg::Transaction transaction(connection, {.plan = pg::Plan::generic});
  return std::move(transaction.read_all({{statement.over(group), params}}).front());
}

/// The leases of one holder, and how long the last of them has left.
struct Holding {
  std::int64_t leases = 0;
  Milliseconds left{0};
};

Milliseconds length_of_a_long_lease(const std::map<std::string, Holding>& holdings, std::int64_t leases) {
  std::vector<Holding> all;
  all.reserve(holdings.size());
  for (const auto& [holder, holding] : holdings) all.push_back(holding);
  std::ranges::sort(all, {}, &Holding::left);
  std::int64_t shorter = 0;
  for (const Holding& each : all) {
    shorter += each.leases;
    if (static_cast<double>(shorter) >= kLongerThan * static_cast<double>(leases)) return each.left;
  }
  return Milliseconds{0};
}

}  // namespace

Fleet count_leases(pg::Connection& connection, const Groups& groups, const ScannerFilter& filter) {
  static const Statement plain = statement_on_leases("leases", kLeases);
  static const Statement filtered = statement_on_leases("leases", kFilteredLeases);
  const Statement& statement = filter.matches_everything() ? plain : filtered;
  std::map<std::string, Holding> holdings;
  std::int64_t leases = 0;
  std::size_t partitions = 0;
  for (const Partitions& group : groups.all()) {
    const pg::Params params = params_of(group, filter, Milliseconds{0}, std::nullopt);
    const pg::Result rows = ask(connection, statement, group, params);
    for (const pg::Row row : rows) {
      Holding& its = holdings[row.get<std::string>("holder")];
      its.leases += row.get<std::int64_t>("leases");
      its.left = std::max(its.left, Milliseconds{row.get<std::int64_t>("left_ms")});
      leases += row.get<std::int64_t>("leases");
    }
    partitions += group.size();
    if (leases >= kEnoughLeases) break;
  }
  const double scale =
      partitions == 0 ? 1 : static_cast<double>(groups.partitions()) / static_cast<double>(partitions);
  return {.leases = static_cast<std::int64_t>(static_cast<double>(leases) * scale),
          .holders = static_cast<std::int64_t>(holdings.size()),
          .lease_length = length_of_a_long_lease(holdings, leases)};
}

LeasesOf count_lapsed(pg::Connection& connection, const Groups& groups, const ScannerFilter& filter,
                      Milliseconds holdoff, UnixMillis after,
                      const std::function<bool(const LeasesOf&)>& enough) {
  static const Statement statement = statement_on_leases("lapsed", kLapsed);
  LeasesOf lapsed;
  for (const Partitions& group : groups.all()) {
    const pg::Params params = params_of(group, filter, holdoff, count(after));
    const pg::Result rows = ask(connection, statement, group, params);
    for (const pg::Row row : rows) lapsed[row.get<std::string>("holder")] += row.get<std::int64_t>("leases");
    if (enough(lapsed)) break;
  }
  return lapsed;
}

Claims count_claims(pg::Connection& connection, std::optional<std::int64_t> after) {
  const pg::Params params = pg::Params::of(after);
  const pg::Result rows = connection.execute(kClaims, params);
  const pg::Row row = rows.one();
  return {row.get<std::int64_t>("newest"), row.get<std::int64_t>("claims")};
}

}  // namespace ff::reconcile
