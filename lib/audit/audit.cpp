#include "audit/audit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "audit/phrases.hpp"
#include "audit/remedy.hpp"
#include "pg/transaction.hpp"
#include "reconcile/groups.hpp"

namespace ff::audit {
namespace {

// So many rows of a problem are read one by one in each group of partitions; the others are counted.
constexpr std::int64_t kMostRows = 1000;

// $1: how many rows of each problem
constexpr std::string_view kListing = R"sql(
WITH clock AS MATERIALIZED (
  SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
)
SELECT *
  FROM (SELECT found.*, row_number() OVER (PARTITION BY problem ORDER BY partition_key, key, seen, what) AS place,
               count(*) OVER (PARTITION BY problem) AS in_all
          FROM ({found}
          ) found) numbered
 WHERE place <= $1
 ORDER BY problem, place)sql";

constexpr std::string_view kSizes = R"sql(
SELECT num_flow_partitions, num_budget_partitions, num_quota_partitions FROM {schema}.ff_partition_config)sql";

// FlowFabric's registry of workers has its own, whatever the configuration.
constexpr int kWorkerPartitions = 256;

const Check& check_of(const Sweep& sweep, std::string_view problem) {
  const auto its = std::ranges::find(sweep.checks, problem, &Check::name);
  if (its == sweep.checks.end()) throw std::logic_error("a sweep finds what it has no check for");
  return *its;
}

std::string remedy_for(const Check& check, const pg::Row& row, const std::string& id) {
  return filled_in(check.remedy, [&](std::string_view column) {
    return column == "id" ? id : row.get<std::optional<std::string>>(column).value_or("");
  });
}

const Partitions& partitions_of(const Spaces& spaces, Space space) {
  static const Partitions none;
  switch (space) {
    case Space::flows:
      return spaces.flows;
    case Space::budgets:
      return spaces.budgets;
    case Space::quotas:
      return spaces.quotas;
    case Space::workers:
      return spaces.workers;
    case Space::none:
      break;
  }
  return none;
}

std::string names_of(const Sweep& sweep) {
  std::string names;
  for (const Check& check : sweep.checks) names += (names.empty() ? "" : ", ") + std::string(check.name);
  return names;
}

}  // namespace

const std::vector<Sweep>& sweeps() {
  static const std::vector<Sweep> all = [] {
    std::vector<Sweep> made;
    for (auto* of : {sweeps_of_executions, sweeps_of_attempts, sweeps_of_suspensions, sweeps_of_edges,
                     sweeps_of_fan_ins, sweeps_of_events, sweeps_of_flows, sweeps_of_counters})
      std::ranges::move(of(), std::back_inserter(made));
    for (Sweep& sweep : made)
      for (Check& check : sweep.checks) check.remedy = words().expand(check.remedy);
    return made;
  }();
  return all;
}

const std::vector<std::string>& tables() {
  static const std::vector<std::string> all = [] {
    constexpr std::string_view kTable = "{schema}.";
    std::set<std::string> names;
    for (const Sweep& sweep : sweeps()) {
      const std::string text = phrases({{0}}).expand(sweep.sql);
      for (auto at = text.find(kTable); at != std::string::npos; at = text.find(kTable, at + 1)) {
        const auto begin = at + kTable.size();
        names.insert(
            text.substr(begin, text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", begin) - begin));
      }
    }
    return std::vector<std::string>(names.begin(), names.end());
  }();
  return all;
}

Spaces all_spaces(pg::Connection& connection) {
  const pg::Result rows = connection.execute(kSizes);
  const pg::Row row = rows.one();
  return {all_partitions(row.get<std::int32_t>(0)), all_partitions(row.get<std::int32_t>(1)),
          all_partitions(row.get<std::int32_t>(2)), all_partitions(kWorkerPartitions)};
}

Audit::Found Audit::read(const Sweep& sweep, const Partitions& partitions) {
  Fragments its = phrases(partitions);
  its.add({"found", sweep.sql});
  pg::Transaction transaction(connection_, {.isolation = pg::Isolation::snapshot});
  const pg::Result result = transaction.execute(its.expand(kListing), pg::Params::of(kMostRows));
  Found found;
  for (const pg::Row row : result) {
    Row one{row.get<std::string>("problem"),
            {PartitionKey{static_cast<std::int16_t>(row.get<std::int32_t>("partition_key"))},
             row.get<std::string>("key"),
             row.get<std::string>("what"),
             {}},
            row.get<std::string>("seen")};
    if (sweep.of_executions)
      one.finding.key = fmt::format("{{fp:{}}}:{}", one.finding.partition.value, one.finding.key);
    one.finding.remedy = remedy_for(check_of(sweep, one.problem), row, one.finding.key);
    found.in_all[one.problem] = row.get<std::int64_t>("in_all");
    found.rows.insert(std::move(one));
  }
  transaction.rollback();
  return found;
}

// A statement that takes too long is asked for in halves.
void Audit::visit(const Sweep& sweep, const Partitions& partitions) {
  try {
    Found found = read(sweep, partitions);
    if (!found.rows.empty()) found_.emplace_back(Place{&sweep, partitions}, std::move(found));
  } catch (const pg::Error& error) {
    if (error.connection_lost() || error.interrupted()) throw;
    if (error.timed_out() && !error.table_locked() && partitions.size() > 1) {
      const auto middle = partitions.begin() + static_cast<std::ptrdiff_t>(partitions.size() / 2);
      visit(sweep, {partitions.begin(), middle});
      visit(sweep, {middle, partitions.end()});
      return;
    }
    leave_out({names_of(sweep), sweep.checks.size(), sweep.space, partitions, error.what()});
  }
}

// What fails alike in many groups is said once.
void Audit::leave_out(const Omission& omission) {
  const auto its = std::ranges::find_if(omissions_, [&](const Omission& other) {
    return other.checks == omission.checks && other.error == omission.error;
  });
  if (its == omissions_.end()) {
    omissions_.push_back(omission);
    return;
  }
  Partitions both;
  std::ranges::set_union(its->partitions, omission.partitions, std::back_inserter(both));
  its->partitions = std::move(both);
}

bool Audit::check() {
  found_.clear();
  omissions_.clear();
  for (const Sweep& sweep : sweeps()) {
    if (sweep.space == Space::none) visit(sweep, {});
    const reconcile::Groups groups(partitions_of(spaces_, sweep.space));
    for (const Partitions& group : groups.all()) visit(sweep, group);
  }
  return found_.empty() && omissions_.empty();
}

std::set<std::string> Audit::reconcilers_concerned() const {
  constexpr std::string_view kTick = "ff-reconcilerd tick ";
  std::set<std::string> names;
  for (const auto& [place, found] : found_)
    for (const Row& row : found.rows) {
      const std::string& remedy = row.finding.remedy;
      if (!remedy.starts_with(kTick)) continue;
      names.insert(remedy.substr(kTick.size(), remedy.find(' ', kTick.size()) - kTick.size()));
    }
  return names;
}

Report Audit::confirm() {
  const auto first = std::exchange(found_, {});
  std::map<const Check*, Verdict> verdicts;
  for (const auto& [place, before] : first) {
    const std::size_t checked = found_.size();
    visit(*place.sweep, place.partitions);
    for (std::size_t i = checked; i < found_.size(); ++i) {
      const Found& now = found_[i].second;
      std::map<std::string, std::int64_t> listed;
      for (const Row& row : now.rows) {
        ++listed[row.problem];
        if (!before.rows.contains(row)) continue;
        const Check& check = check_of(*place.sweep, row.problem);
        verdicts.try_emplace(&check, Verdict{&check, {}}).first->second.rows.push_back(row.finding);
      }
      for (const auto& [problem, in_all] : now.in_all) {
        const auto its = verdicts.find(&check_of(*place.sweep, problem));
        if (its != verdicts.end()) its->second.more += in_all - listed[problem];
      }
    }
  }
  Report report{{}, omissions_};
  for (const Sweep& sweep : sweeps())
    for (const Check& check : sweep.checks)
      if (const auto its = verdicts.find(&check); its != verdicts.end())
        report.verdicts.push_back(std::move(its->second));
  return report;
}

}  // namespace ff::audit
