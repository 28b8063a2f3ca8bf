#include "bench/family_rival.hpp"

#include <algorithm>
#include <stdexcept>

namespace ff::bench {
namespace {

using pg::Params;

constexpr std::string_view kNow = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

// What a step may use, and the last text in it.
struct Known {
  Params params;
  std::string branch;

  void add(const pg::Row& row, int columns) {
    for (int i = 0; i < columns; ++i) {
      const auto text = row.get<std::optional<std::string>>(i);
      params.add(text);
      branch = text.value_or("");
    }
  }
};

// How many rows the steps have returned, without those of what hangs on them.
std::int64_t run(pg::Connection& connection, const std::vector<Step>& steps, const Known& known) {
  std::int64_t found = 0;
  for (const Step& step : steps) {
    if (!step.when.empty() && std::ranges::find(step.when, known.branch) == step.when.end()) continue;
    const pg::Result rows = connection.execute_prepared(step.sql, known.params);
    found += rows.size();
    for (const pg::Row row : rows) {
      Known more = known;
      more.add(row, rows.columns());
      run(connection, step.then, more);
    }
  }
  return found;
}

bool move_one(pg::Connection& connection, const std::vector<Step>& steps, const Known& known) {
  connection.execute_script("BEGIN");
  const bool moved = run(connection, steps, known) > 0;
  connection.execute_script(moved ? "COMMIT" : "ROLLBACK");
  return moved;
}

}  // namespace

const RowByRow& row_by_row_of(std::string_view reconciler) {
  static const std::vector<RowByRow> all = [] {
    std::vector<RowByRow> made = execution_rivals();
    for (auto& more : {flow_rivals(), other_rivals()}) made.insert(made.end(), more.begin(), more.end());
    return made;
  }();
  for (const RowByRow& way : all)
    if (way.name == reconciler) return way;
  throw std::out_of_range("there is no row by row for " + std::string(reconciler));
}

std::int64_t work_row_by_row(pg::Connection& connection, const RowByRow& way, const Partitions& partitions,
                             Milliseconds holdoff) {
  std::int64_t moved = 0;
  for (const PartitionKey partition : partitions) {
    for (bool again = true; again;) {
      const auto now = connection.execute(kNow).one().get<std::int64_t>(0);
      const std::int64_t due = now - holdoff.count();
      const pg::Result rows =
          connection.execute_prepared(way.list, Params::of(partition, due, std::int64_t{way.page}));
      const std::int64_t before = moved;
      for (const pg::Row row : rows) {
        Known known{Params::of(partition, now, due), {}};
        known.add(row, rows.columns());
        moved += move_one(connection, way.steps, known) ? 1 : 0;
      }
      again = rows.size() >= way.page && moved > before;
    }
  }
  return moved;
}

}  // namespace ff::bench
