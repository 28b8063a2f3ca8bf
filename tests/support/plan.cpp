#include "support/plan.hpp"

#include <algorithm>
#include <limits>

#include "check/plan.hpp"
#include "pg/transaction.hpp"
#include "reconcile/action.hpp"
#include "support/engine.hpp"

namespace ff::test {

using reconcile::Candidate;
using reconcile::Reconciler;
using reconcile::Statements;

namespace {

constexpr std::int64_t kSmall = 1000;  // rows: below that a sequential scan may be the right choice
constexpr int kTries = 3;  // with one before, fewer than the five after which a plan may be reused
constexpr std::size_t kNamedFaults = 5;  // nodes: the rest follows from these, or is small

std::string literal(const std::optional<std::string>& value) {
  if (!value) return "NULL";
  std::string text = "'";
  for (const char c : *value) text += c == '\'' ? std::string("''") : std::string(1, c);
  return text + "'";
}

/// A statement under a name: EXPLAIN itself takes no parameters, an EXECUTE does.
class Explained {
 public:
  Explained(pg::Connection& connection, const std::string& sql, const pg::Params& params, pg::Plan plan)
      : connection_(connection), plan_(plan) {
    std::string types;
    for (std::size_t i = 0; i < params.size(); ++i) {
      const std::string comma = i == 0 ? "" : ", ";
      types += comma + connection_
                           .execute("SELECT $1::oid::regtype::text",
                                    pg::Params::of(static_cast<std::int64_t>(params.types()[i])))
                           .one()
                           .get<std::string>(0);
      values_ += comma + literal(params.values()[i]);
    }
    connection_.execute("PREPARE explained (" + types + ") AS " + sql);
  }
  ~Explained() {
    if (!connection_.lost()) connection_.execute("DEALLOCATE explained");
  }
  Explained(const Explained&) = delete;
  Explained& operator=(const Explained&) = delete;

  /// What EXPLAIN says; each call is a transaction of its own that ends in rollback.
  pg::Result explain(const std::string& options) {
    pg::Transaction transaction(connection_, {.plan = plan_});
    return connection_.execute("EXPLAIN (" + options + ") EXECUTE explained(" + values_ + ")");
  }
  Json document(const std::string& options) {
    return Json::parse(explain(options + "FORMAT JSON").one().get<std::string>(0)).at(0);
  }

 private:
  pg::Connection& connection_;
  const pg::Plan plan_;
  std::string values_;
};

double comparisons(const Json& node) {
  const double loops = node.value("Actual Loops", 0.0);
  double rows = node.value("Rows Removed by Join Filter", 0.0) + node.value("Rows Removed by Filter", 0.0);
  if (node["Node Type"] == "CTE Scan" && loops > 1) rows += node.value("Actual Rows", 0.0);
  return rows * loops;
}

// Hash children go by the name of their table: "ff_attempt_p7" is ff_attempt.
std::string table_of(std::string relation) {
  const auto last = relation.find_last_not_of("0123456789");
  if (last != std::string::npos && last + 1 < relation.size() && relation[last] == 'p' && last > 0 &&
      relation[last - 1] == '_')
    relation.resize(last - 1);
  return relation;
}

std::string title(const Json& node) {
  std::string text = node["Node Type"];
  if (node.contains("Join Type")) text += " (" + node["Join Type"].get<std::string>() + ")";
  if (node.contains("CTE Name")) text += " on " + node["CTE Name"].get<std::string>();
  if (node.contains("Relation Name")) text += " on " + table_of(node["Relation Name"]);
  return text;
}

/// `within` is the named part of the statement that the node belongs to.
void collect_efforts(const Json& node, std::string within, std::map<std::string, double>& found) {
  if (within.empty()) within = "main query";
  if (node.contains("Subplan Name")) {
    const std::string name = node["Subplan Name"];
    within = name.starts_with("CTE ") ? name : within + ", " + name;
  }
  if (const double effort = comparisons(node); effort > 0) found[within + ": " + title(node)] += effort;
  if (node.contains("Plans"))
    for (const auto& child : node["Plans"]) collect_efforts(child, within, found);
}

void collect_rows_read(const Json& node, std::map<std::string, double>& found) {
  if (node.contains("Relation Name"))
    found[table_of(node["Relation Name"])] +=
        (node.value("Actual Rows", 0.0) + node.value("Rows Removed by Filter", 0.0)) *
        node.value("Actual Loops", 0.0);
  if (node.contains("Plans"))
    for (const auto& child : node["Plans"]) collect_rows_read(child, found);
}

// Of a line such as "Planning Time: 1.234 ms"; of any other, more than any time.
double milliseconds(const std::string& line, std::string_view title) {
  return line.starts_with(title) ? std::stod(line.substr(title.size())) : std::numeric_limits<double>::max();
}

Settings taking_most(const Reconciler& reconciler) {
  Settings settings;
  for (const SettingDecl& setting : reconciler.settings)
    if (setting.kind == SettingDecl::Kind::flag) settings.emplace(setting.name, 1);
  return settings;
}

std::vector<Candidate> due_rows(pg::Connection& connection, const Reconciler& reconciler,
                                const Partitions& partitions, int per_partition) {
  const auto told = found_out(connection, reconciler);
  pg::Transaction transaction(connection, {.plan = pg::Plan::generic});
  const auto rows =
      transaction.execute(Statements(reconciler).page.over(partitions),
                          page_params(reconciler, partitions, Milliseconds{0}, per_partition, told));
  std::vector<Candidate> found;
  for (const pg::Row row : rows) {
    if (row.is_null(0)) break;  // nothing was found: the row tells the time only
    found.push_back({reconcile::read_key(row, reconciler.key.size()),
                     unix_millis(row.get<std::int64_t>("due_at_ms")), row.get<bool>("is_due")});
  }
  return found;
}

pg::Params act_params(pg::Connection& connection, const Reconciler& reconciler, reconcile::Candidates rows) {
  pg::Params params = leading_params(reconciler, reconcile::partitions_of(rows), {}, taking_most(reconciler),
                                     {}, found_out(connection, reconciler));
  reconcile::add_keys(params, reconciler, rows);
  return params;
}

}  // namespace

Json plan_of(pg::Connection& connection, const std::string& sql, const pg::Params& params, pg::Plan plan) {
  return Explained(connection, sql, params, plan).document("");
}

Json run_plan_of(pg::Connection& connection, const std::string& sql, const pg::Params& params,
                 pg::Plan plan) {
  return Explained(connection, sql, params, plan).document("ANALYZE, TIMING off, ");
}

std::vector<std::string> whole_tables(pg::Connection& connection, const Json& plan) {
  const auto relations = check::wholly_read(plan);
  std::vector<std::string> scanned(relations.begin(), relations.end());
  std::erase_if(scanned, [&](const std::string& table) {
    return number(connection, "SELECT count(*) FROM (SELECT FROM " + table + " LIMIT 1001) few") <= kSmall;
  });
  return scanned;
}

std::vector<Effort> efforts(const Json& run_plan) {
  std::map<std::string, double> by_node;
  collect_efforts(run_plan.at("Plan"), "", by_node);
  std::vector<Effort> found;
  for (const auto& [node, sum] : by_node) found.push_back({node, sum});
  std::ranges::stable_sort(found, std::ranges::greater{}, &Effort::comparisons);
  return found;
}

std::vector<std::string> efforts_above(double most, const Json& run_plan) {
  const auto all = efforts(run_plan);
  double sum = 0;
  for (const Effort& effort : all) sum += effort.comparisons;
  std::vector<std::string> worst;
  if (sum <= most) return worst;
  for (std::size_t i = 0; i < std::min(all.size(), kNamedFaults); ++i)
    worst.push_back(all[i].node + ": " + std::to_string(static_cast<std::int64_t>(all[i].comparisons)));
  return worst;
}

std::map<std::string, double> rows_read(const Json& run_plan) {
  std::map<std::string, double> found;
  collect_rows_read(run_plan.at("Plan"), found);
  return found;
}

Times best_times(pg::Connection& connection, const std::string& sql, const pg::Params& params,
                 pg::Plan plan) {
  Explained explained(connection, sql, params, plan);
  const auto run = [&] { return explained.explain("ANALYZE, TIMING off, COSTS off"); };
  run();
  Times best{std::numeric_limits<double>::max(), std::numeric_limits<double>::max()};
  for (int i = 0; i < kTries; ++i) {
    // The plan itself may have thousands of lines.
    for (const pg::Row row : run()) {
      const auto line = row.get<std::string>(0);
      best.planning = std::min(best.planning, milliseconds(line, "Planning Time: "));
      best.execution = std::min(best.execution, milliseconds(line, "Execution Time: "));
    }
  }
  return best;
}

pg::Params page_params(const Reconciler& reconciler, const Partitions& partitions, Milliseconds ahead,
                       int limit, const std::optional<pg::Params>& told, std::int64_t from) {
  pg::Params params = leading_params(reconciler, partitions, {}, taking_most(reconciler), {}, told);
  return params.add(std::int64_t{limit}).add(std::int64_t{ahead.count()}).add(from);
}

DueBatch::DueBatch(pg::Connection& connection, const Reconciler& pair, const Partitions& partitions,
                   int per_partition)
    : reconciler(pair),
      rows(due_rows(connection, reconciler, partitions, per_partition)),
      params(act_params(connection, reconciler, rows)),
      lock(Statements(reconciler).lock.over(partitions)),
      act(Statements(reconciler).act.over(partitions)),
      still_due(Statements(reconciler).still_due.over(partitions)) {}

std::map<std::string, int> DueBatch::outcomes(pg::Connection& connection) const {
  pg::Transaction transaction(connection, {.plan = pg::Plan::generic});
  std::map<std::string, int> counted;
  const pg::Result acted = transaction.execute(act, params);
  for (const pg::Row row : reconcile::rows_of_batch({&acted, 1}, reconciler))
    ++counted[row.get<std::string>("outcome")];
  return counted;
}

int moved(const Reconciler& reconciler, const std::map<std::string, int>& outcomes) {
  int sum = 0;
  for (const auto& [name, count] : outcomes)
    if (reconcile::outcome_of(reconciler, name)->effect != reconcile::Effect::left_alone) sum += count;
  return sum;
}

}  // namespace ff::test
