#include "reconcile/family/register_watch.hpp"

#include <algorithm>
#include <iterator>

#include "reconcile/groups.hpp"
#include "reconcile/statements.hpp"
#include "reconcile/worker.hpp"

namespace ff::reconcile {
namespace {

using liveness::Name;
using liveness::Registration;

constexpr std::string_view kClock = R"sql(
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms, pg_current_snapshot()::text AS snapshot,
       pg_backend_pid() AS session, floor(extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint AS server,
       (SELECT num_flow_partitions FROM {schema}.ff_partition_config) AS flow_partitions)sql";

constexpr std::string_view kRegister = R"sql(/* ff-reconcilerd dead_worker scan */
SELECT w.worker_instance_id, w.namespace, w.last_heartbeat_ms, w.xmin::text::bigint AS xmin, w.liveness_ttl_ms
  FROM {schema}.ff_worker_registry w
 WHERE {in_partitions:w} AND w.partition_key = ANY({partitions}))sql";

// $2 the instances, null: all. Leases of up to a day ago, which may be renewed, without those that were ended here. A claim
// writes the execution in the same transaction, a renewal does not. Both bounds, because the planner would not use the index
// for one.
constexpr std::string_view kLeases = R"sql(/* ff-reconcilerd dead_worker scan */
SELECT a.worker_instance_id, c.raw_fields->>'namespace' AS namespace, max(a.started_at_ms) AS started_at_ms,
       (array_agg(a.xmin::text::bigint ORDER BY age(a.xmin)))[1] AS youngest,
       (array_agg(CASE WHEN c.xmin = a.xmin THEN a.started_at_ms END ORDER BY age(a.xmin)))[1] AS youngest_claimed_at_ms
  FROM {schema}.ff_attempt a
  LEFT JOIN LATERAL (SELECT e.xmin, e.raw_fields
                       FROM {schema}.ff_exec_core e
                      WHERE {in_partitions:e} AND {same_execution:e, a}
                     OFFSET 0) c ON true
 WHERE {in_partitions:a} AND a.partition_key = ANY({partitions})
   AND a.lease_expires_at_ms > (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) - 86400000
   AND a.lease_expires_at_ms <= 9223372036854775807
   AND (a.raw_fields->'ended_by'->>'at') IS DISTINCT FROM a.lease_expires_at_ms::text
   AND a.worker_instance_id <> 'operator' AND ($2::text[] IS NULL OR a.worker_instance_id = ANY($2))
 GROUP BY 1, 2)sql";

// $2 the namespaces, $3 the instances, beside their partitions. What says that it lives comes first of two at one time.
constexpr std::string_view kEvents = R"sql(/* ff-reconcilerd dead_worker scan */
SELECT k.instance, k.name_space, last.event_at_ms, last.event_kind, last.xmin, life.event_at_ms AS life_at_ms,
       life.xmin AS life_xmin
  FROM unnest({partitions}, $2::text[], $3::text[]) AS k(partition_key, name_space, instance)
  LEFT JOIN LATERAL (SELECT e.event_at_ms, e.event_kind, e.xmin::text::bigint AS xmin
                       FROM {schema}.ff_worker_registry_event e
                      WHERE {in_partitions:e} AND e.partition_key = k.partition_key AND e.namespace = k.name_space
                        AND e.worker_instance_id = k.instance
                      ORDER BY e.event_at_ms DESC, e.event_kind IN ('marked_dead', 'ttl_swept')
                      LIMIT 1) last ON true
  LEFT JOIN LATERAL (SELECT e.event_at_ms, e.xmin::text::bigint AS xmin
                       FROM {schema}.ff_worker_registry_event e
                      WHERE {in_partitions:e} AND e.partition_key = k.partition_key AND e.namespace = k.name_space
                        AND e.worker_instance_id = k.instance AND e.event_kind NOT IN ('marked_dead', 'ttl_swept')
                      ORDER BY e.event_at_ms DESC
                      LIMIT 1) life ON true)sql";

// A worker whose leases, whose row or whose events are out of sight may have given a sign of life there.
constexpr std::string_view kAllInSight = R"sql(/* ff-reconcilerd dead_worker scan */
SELECT {in_sight:ff_attempt, ff_worker_registry, ff_worker_registry_event} AS all_in_sight)sql";

const Groups& register_groups() {
  static const Groups groups(partition_range({0}, {255}));
  return groups;
}

std::set<PartitionKey> all_of_register() {
  const Partitions all = partition_range({0}, {255});
  return {all.begin(), all.end()};
}

constexpr std::int64_t kLookAgainMs = 1'000;
constexpr std::int64_t kLeastPauseMs = 5'000;
constexpr std::int64_t kMostPauseMs = 600'000;

std::uint32_t xmin_of(const pg::Row& row, std::string_view column) {
  return static_cast<std::uint32_t>(row.get<std::int64_t>(column));
}

}  // namespace

bool RegisterWatch::Round::is_registered(const std::string& instance) const {
  const auto found = registered.lower_bound({instance, {}});
  return found != registered.end() && found->first.instance == instance;
}

void RegisterWatch::Round::ask_again(std::int64_t at_ms) {
  next = std::min(next.value_or(at_ms), at_ms);
}

Prelude::Answer RegisterWatch::ask(const Inquiry& inquiry) {
  Round round{inquiry.transaction, inquiry.wary};
  read_clock(round);
  const bool is_known = begun_ && round.snapshot == all_read_at_;
  const bool reads_all = !is_known && (!round.wary || !begun_ || inquiry.scan);
  if (!reads_all) round.registered = registered_;
  if (!is_known) read_register(round, reads_all ? all_of_register() : partitions_of_expected(round));
  if (round.wary) note_gone(round);
  const Instances suspected = suspects(round);
  if (round.wary) round.gone.insert(gone_.begin(), gone_.end());
  const bool of_all = !round.wary || !begun_;
  if ((of_all || !suspected.empty() || !round.gone.empty()) && are_all_in_sight(round)) {
    Instances of = suspected;
    for (const auto& [name, ttl] : round.gone) of.insert(name.instance);
    read_leases(round, of_all ? nullptr : &of);
    std::vector<Name> names;
    for (const auto& [name, registration] : round.registered)
      if (round.leases.contains(name.instance) && suspected.contains(name.instance)) names.push_back(name);
    for (const auto& [name, ttl] : round.gone)
      if (round.leases.contains(name.instance)) names.push_back(name);
    read_events(round, names);
    judge_registered(round, suspected);
    judge_gone(round);
    begun_ = begun_ || round.wary;
  }
  if (round.wary) {
    told_ = round.dead;
    told_at_ms_ = round.now_ms;
    registered_ = std::move(round.registered);
    if (reads_all) all_read_at_ = std::move(round.snapshot);
  }
  Answer answer;
  std::vector<std::string> instances;
  std::vector<std::string> name_spaces;
  for (const Name& name : round.dead) {
    instances.push_back(name.instance);
    name_spaces.push_back(name.name_space);
    for (const std::size_t group : round.leased_in[name.instance])
      answer.worth_a_scan.insert(round.lease_groups[group].begin(), round.lease_groups[group].end());
  }
  answer.params = pg::Params::of(instances, name_spaces, round.dead_from);
  answer.database_time = unix_millis(round.now_ms);
  if (round.wary && round.next) answer.ask_again = unix_millis(*round.next);
  return answer;
}

void RegisterWatch::read_clock(Round& round) {
  static const std::string clock = worded(kClock).over({});
  const pg::Result result = round.transaction.execute(clock);
  const pg::Row read = result.one();
  round.now_ms = read.get<std::int64_t>("now_ms");
  round.flow_partitions = read.get<std::int32_t>("flow_partitions");
  if (!round.wary) return;
  round.snapshot = pg::read_snapshot(read);
  sightings_.note(unix_millis(round.now_ms), round.snapshot.text, round.snapshot.server);
  if (sightings_.size() == 1) begun_ = false;
}

bool RegisterWatch::are_all_in_sight(Round& round) {
  static const std::string in_sight = worded(kAllInSight).over({});
  const bool are = round.transaction.execute(in_sight).one().get<bool>(0);
  if (!are) round.ask_again(round.now_ms + kLookAgainMs);
  return are;
}

// All rows of an instance are in one partition. Of those who are gone, too: they may have registered again.
RegisterWatch::PartitionSet RegisterWatch::partitions_of_expected(Round& round) const {
  PartitionSet partitions;
  for (const std::string& instance : suspects(round))
    partitions.insert({liveness::register_partition(instance)});
  for (const auto& [name, ttl] : gone_) partitions.insert({liveness::register_partition(name.instance)});
  return partitions;
}

void RegisterWatch::read_register(Round& round, const PartitionSet& partitions) {
  static const Statement statement = worded(kRegister);
  std::vector<pg::Call> questions;
  for (const Partitions& group : register_groups().all()) {
    Partitions its;
    std::ranges::copy_if(group, std::back_inserter(its),
                         [&](PartitionKey each) { return partitions.contains(each); });
    if (!its.empty()) questions.push_back({statement.over(group), pg::Params::of(its)});
  }
  if (questions.empty()) return;
  std::erase_if(round.registered, [&](const auto& row) {
    return partitions.contains({liveness::register_partition(row.first.instance)});
  });
  for (const pg::Result& result : round.transaction.execute_all(std::move(questions)))
    for (const pg::Row row : result) {
      if (row.get<std::string>(0) == "operator") continue;
      round.registered.insert_or_assign(
          {row.get<std::string>(0), row.get<std::string>(1)},
          Registration{{row.get<std::int64_t>("last_heartbeat_ms"), xmin_of(row, "xmin")},
                       row.get<std::int64_t>("liveness_ttl_ms")});
    }
}

void RegisterWatch::note_gone(const Round& round) {
  for (const auto& [name, registration] : registered_)
    if (!round.registered.contains(name)) gone_.insert_or_assign(name, registration.ttl_ms);
  std::erase_if(gone_, [&](const auto& gone) { return round.is_registered(gone.first.instance); });
  std::erase_if(resting_, [&](const auto& resting) { return !round.is_registered(resting.first); });
}

// Whose heartbeats are over, in each namespace, so that its leases are worth a scan; and when that of the next one will.
RegisterWatch::Instances RegisterWatch::suspects(Round& round) const {
  Instances all;
  Instances alive;
  for (const auto& [name, registration] : round.registered) {
    std::int64_t from = *liveness::silent_from(registration, {}, {}, sightings(round));
    const auto resting = resting_.find(name.instance);
    if (round.wary && resting != resting_.end() && resting->second.heartbeat == registration.heartbeat.xmin)
      from = std::max(from, resting->second.until_ms);
    (from < round.now_ms ? all : alive).insert(name.instance);
    if (from >= round.now_ms) round.ask_again(from);
  }
  for (const std::string& instance : alive) all.erase(instance);
  return all;
}

void RegisterWatch::read_leases(Round& round, const Instances* of) {
  static const Statement statement = worded(kLeases);
  std::vector<std::string> wanted;
  if (of != nullptr) wanted.assign(of->begin(), of->end());
  std::vector<pg::Call> questions;
  round.lease_groups = Groups(all_partitions(round.flow_partitions)).all();
  for (const Partitions& group : round.lease_groups)
    questions.push_back(
        {statement.over(group), pg::Params::of(group, of == nullptr ? std::nullopt : std::optional(wanted))});
  const std::vector<pg::Result> results = round.transaction.execute_all(std::move(questions));
  for (std::size_t i = 0; i < results.size(); ++i)
    for (const pg::Row row : results[i]) {
      const auto instance = row.get<std::string>(0);
      round.leased_in[instance].insert(i);
      const auto started = row.get<std::optional<std::int64_t>>("started_at_ms");
      const liveness::Leases found{started, xmin_of(row, "youngest"),
                                   row.get<std::optional<std::int64_t>>("youngest_claimed_at_ms")};
      liveness::Leases& its = round.leases.try_emplace(instance, found).first->second;
      if (is_younger(found.youngest, its.youngest)) {
        its.youngest = found.youngest;
        its.youngest_claimed_at_ms = found.youngest_claimed_at_ms;
      }
      its.started_at_ms = std::max(its.started_at_ms, started);
      const auto name_space = row.get<std::optional<std::string>>("namespace");
      if (of == nullptr && name_space && !round.is_registered(instance))
        round.gone.try_emplace({instance, *name_space}, liveness::kUnknownTtlMs);
    }
}

void RegisterWatch::read_events(Round& round, const std::vector<Name>& of) {
  static const Statement statement = worded(kEvents);
  struct Asked {
    Partitions partitions;
    std::vector<std::string> name_spaces;
    std::vector<std::string> instances;
  };
  std::map<std::size_t, Asked> by_group;
  for (const Name& name : of) {
    const PartitionKey partition{liveness::register_partition(name.instance)};
    Asked& asked = by_group[register_groups().of(partition)];
    asked.partitions.push_back(partition);
    asked.name_spaces.push_back(name.name_space);
    asked.instances.push_back(name.instance);
  }
  std::vector<pg::Call> questions;
  questions.reserve(by_group.size());
  for (const auto& [group, asked] : by_group)
    questions.push_back({statement.over(register_groups().all()[group]),
                         pg::Params::of(asked.partitions, asked.name_spaces, asked.instances)});
  if (questions.empty()) return;
  for (const pg::Result& result : round.transaction.execute_all(std::move(questions)))
    for (const pg::Row row : result) {
      liveness::LastEvents& its = round.events[{row.get<std::string>(0), row.get<std::string>(1)}];
      if (const auto at = row.get<std::optional<std::int64_t>>("life_at_ms"))
        its.life = liveness::Sign{*at, xmin_of(row, "life_xmin")};
      const auto kind = row.get<std::optional<std::string>>("event_kind");
      its.marked = kind == "marked_dead";
      if (its.marked || kind == "ttl_swept")
        its.death = liveness::Sign{row.get<std::int64_t>("event_at_ms"), xmin_of(row, "xmin")};
    }
}

// All its rows have to say so.
void RegisterWatch::judge_registered(Round& round, const Instances& instances) {
  for (const std::string& instance : instances) {
    const auto leases = round.leases.find(instance);
    const auto first = round.registered.lower_bound({instance, {}});
    if (leases == round.leases.end()) {
      if (round.wary) rest(*first, round.now_ms, {});
      continue;
    }
    std::int64_t from = 0;
    auto last = first;
    for (; last != round.registered.end() && last->first.instance == instance; ++last)
      from = std::max(from, *liveness::silent_from(last->second, round.events[last->first], leases->second,
                                                   sightings(round)));
    if (from >= round.now_ms) {
      round.ask_again(from);
      if (round.wary) rest(*first, round.now_ms, from);
      continue;
    }
    for (auto row = first; row != last; ++row) {
      round.dead.push_back(row->first);
      round.dead_from.push_back(from);
    }
  }
}

void RegisterWatch::judge_gone(Round& round) {
  for (const auto& [name, ttl_ms] : round.gone) {
    const auto leases = round.leases.find(name.instance);
    const auto from =
        leases == round.leases.end()
            ? std::nullopt
            : liveness::gone_from(ttl_ms, round.events[name], leases->second, sightings(round), round.now_ms);
    if (from && *from < round.now_ms) {
      round.dead.push_back(name);
      round.dead_from.push_back(*from);
    }
    if (from && *from >= round.now_ms) round.ask_again(*from);
    if (round.wary && from) gone_.insert_or_assign(name, ttl_ms);
    if (round.wary && !from) gone_.erase(name);
  }
}

// Where nothing says when it may be worth a scan again: for longer each time.
void RegisterWatch::rest(const Registered& worker, std::int64_t now_ms,
                         std::optional<std::int64_t> until_ms) {
  const auto& [name, registration] = worker;
  Rest& its = resting_[name.instance];
  if (its.heartbeat != registration.heartbeat.xmin) its = {.heartbeat = registration.heartbeat.xmin};
  if (!until_ms)
    its.pause_ms = std::clamp(2 * its.pause_ms, std::clamp(registration.ttl_ms, kLeastPauseMs, kMostPauseMs),
                              kMostPauseMs);
  its.until_ms = until_ms.value_or(now_ms + its.pause_ms);
}

// Nobody registers or claims any more as one that is gone: only of one that is still on the register may more be found.
void RegisterWatch::settled() {
  for (const Name& name : told_) {
    const auto row = registered_.lower_bound({name.instance, {}});
    if (row != registered_.end() && row->first.instance == name.instance)
      rest(*row, told_at_ms_, {});
    else
      gone_.erase(name);
  }
  told_.clear();
}

}  // namespace ff::reconcile
