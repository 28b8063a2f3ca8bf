#include "check/replicas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <stdexcept>

#include "base/printable.hpp"

namespace ff::check {
namespace {

constexpr std::size_t kLongestName = 63;  // bytes: NAMEDATALEN - 1
constexpr std::string_view kProgram = "ff-reconcilerd ";
constexpr std::string_view kMore = ",+";
constexpr std::string_view kCheck = "replicas";

// A daemon asks the server every other second, and every half minute where the schema is not fit. What has been quiet for longer is
// what a pooler keeps for whoever comes next, by
// the name of the daemon that has gone.
constexpr Milliseconds kQuiet{60'000};

// $1 what the names begin with, $2 quiet since so many milliseconds. The addresses of other roles, and what their sessions do, are
// for roles with pg_read_all_stats.
constexpr std::string_view kSessions = R"sql(
SELECT application_name AS name, coalesce(host(client_addr), 'this machine') AS place, count(*)::integer AS sessions
  FROM pg_stat_activity
 WHERE datname = current_database() AND application_name ^@ $1
 GROUP BY 1, 2
HAVING bool_or(coalesce(state = 'active' OR state_change > clock_timestamp() - $2 * interval '1 ms', true))
 ORDER BY 1, 2)sql";

// $1 what the names begin with, $2 the table, $3 as $2 above. Names and roles of sessions are for everybody to see.
constexpr std::string_view kBlindRoles = R"sql(
SELECT DISTINCT r.rolname::text AS role
  FROM pg_stat_activity a
  JOIN pg_roles r ON r.oid = a.usesysid
  JOIN pg_class c ON c.oid = to_regclass({schema_text} || $2)
 WHERE a.datname = current_database() AND a.application_name ^@ $1
   AND coalesce(a.state = 'active' OR a.state_change > clock_timestamp() - $3 * interval '1 ms', true)
   AND NOT (has_schema_privilege(r.oid, c.relnamespace, 'USAGE') AND has_table_privilege(r.oid, c.oid, 'SELECT'))
 ORDER BY 1)sql";

// The keys that a name says its daemon looks after; of one that was cut off, those that it still names.
Partitions keys_of(std::string_view text, int count) {
  PartitionChoice choice;
  PartitionShard shard;
  if (const std::string whole(text);
      std::sscanf(whole.c_str(), "{shard: %d, of: %d}", &shard.shard, &shard.of) == 2 && shard.of > 0) {
    choice = shard;
  } else if (text != "all") {
    if (text.ends_with(kMore)) text.remove_suffix(kMore.size());
    try {
      choice = parse_partitions(text);
    } catch (const std::invalid_argument&) {
      return {};  // somebody else's words
    }
  }
  return cover(choice, count).covered;
}

Lines what_is_wrong(const std::vector<Replicas>& seen, int count) {
  if (seen.empty())
    return {{kCheck, Verdict::warning, "no daemon is seen on this database",
             "ff-reconcilerd run # or see why it is not there"}};
  Lines lines;
  std::set<PartitionKey> held;
  std::set<std::string> versions;
  bool cut_off = false;
  for (const Replicas& some : seen) {
    const Partitions keys = keys_of(some.partitions, count);
    held.insert(keys.begin(), keys.end());
    versions.insert(some.version);
    cut_off = cut_off || some.partitions.ends_with(kMore);
  }
  Partitions left_out;
  for (std::int32_t key = 0; key < count; ++key)
    if (!held.contains({static_cast<std::int16_t>(key)}))
      left_out.push_back({static_cast<std::int16_t>(key)});
  if (!left_out.empty())
    lines.push_back({kCheck, Verdict::warning,
                     fmt::format("no daemon is seen that covers partitions {}{}", format_partitions(left_out),
                                 cut_off ? ", but one names more than its session's name can hold" : ""),
                     "run one more with these partitions, or with all"});
  if (versions.size() > 1)
    lines.push_back({kCheck, Verdict::warning,
                     fmt::format("of several versions: {}", fmt::join(versions, ", ")),
                     "upgrade those with the older version"});
  return lines;
}

}  // namespace

std::string session_name(std::string_view version, const PartitionChoice& choice) {
  std::string name = std::string(kProgram) + std::string(version) + " " + format_choice(choice);
  if (name.size() <= kLongestName) return name;
  name.resize(std::min(name.rfind(',', kLongestName - kMore.size()), kLongestName - kMore.size()));
  return name + std::string(kMore);
}

std::vector<Replicas> replicas(pg::Connection& connection, std::optional<Milliseconds> quiet) {
  std::vector<Replicas> seen;
  const auto params = pg::Params::of(kProgram, quiet.value_or(kQuiet).count());
  for (const pg::Row row : connection.execute(kSessions, params)) {
    const auto words = printable(row.get<std::string>("name")).substr(kProgram.size());
    const auto space = std::min(words.find(' '), words.size());
    seen.push_back({words.substr(0, space), words.substr(std::min(space + 1, words.size())),
                    row.get<std::string>("place"), row.get<std::int32_t>("sessions")});
  }
  return seen;
}

std::vector<std::string> roles_that_may_not_read(pg::Connection& connection, std::string_view table) {
  std::vector<std::string> roles;
  for (const pg::Row row : connection.execute(kBlindRoles, pg::Params::of(kProgram, table, kQuiet.count())))
    roles.push_back(row.get<std::string>("role"));
  return roles;
}

Lines replicas(const std::vector<Replicas>& seen, int partition_count) {
  Lines lines;
  for (const Replicas& some : seen)
    lines.push_back({kCheck, Verdict::fine,
                     fmt::format("{} session{} from {}: version {}, partitions {}", some.sessions,
                                 some.sessions == 1 ? "" : "s", some.place, some.version, some.partitions)});
  const Lines faults = what_is_wrong(seen, partition_count);
  lines.insert(lines.end(), faults.begin(), faults.end());
  return lines;
}

}  // namespace ff::check
