#include "bench/row_by_row.hpp"

#include <algorithm>

#include "bench/backlog.hpp"
#include "bench/sql_file.hpp"

namespace ff::bench {

using pg::Params;

// What a step may use, and the last text in it.
struct RowByRow::Known {
  Params params;
  std::string branch = {};

  void add(const pg::Row& row, int columns) {
    for (int i = 0; i < columns; ++i) {
      const auto text = row.get<std::optional<std::string>>(i);
      params.add(text);
      branch = text.value_or("");
    }
  }
};

std::vector<RowByRow::Step> RowByRow::steps_for_each(const std::string& reconciler, std::string_view name) {
  std::vector<Step> steps;
  for (const SqlStatement& each : sql_file(reconciler + "/rival")) {
    const std::string own = each.note("name");
    if (own == "list" || each.note("for each") != name) continue;
    steps.push_back(
        {each.text, each.words("when"), own.empty() ? std::vector<Step>{} : steps_for_each(reconciler, own)});
  }
  return steps;
}

RowByRow::RowByRow(const std::string& reconciler)
    : list_(sql(reconciler + "/rival", "list")), steps_(steps_for_each(reconciler, "")) {
  for (const SqlStatement& each : sql_file(reconciler + "/rival")) {
    if (!each.note("page").empty()) page_ = each.number("page");
    if (const auto of = each.note("for each"); !of.empty()) sql(reconciler + "/rival", of);
  }
}

// How many rows the steps have returned, without those of what hangs on them.
std::int64_t RowByRow::run(pg::Connection& connection, const std::vector<Step>& steps, const Known& known) {
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

std::int64_t RowByRow::work(pg::Connection& connection, const Partitions& partitions,
                            Milliseconds holdoff) const {
  std::int64_t moved = 0;
  for (const PartitionKey partition : partitions) {
    for (bool again = true; again;) {
      const std::int64_t now = database_now_ms(connection);
      const std::int64_t due = now - holdoff.count();
      const pg::Result rows = connection.execute_prepared(list_, Params::of(partition, due, page_));
      const std::int64_t before = moved;
      for (const pg::Row row : rows) {
        Known known{Params::of(partition, now, due)};
        known.add(row, rows.columns());
        connection.execute_script("BEGIN");
        const bool is_due = run(connection, steps_, known) > 0;
        connection.execute_script(is_due ? "COMMIT" : "ROLLBACK");
        moved += is_due ? 1 : 0;
      }
      again = rows.size() >= page_ && moved > before;
    }
  }
  return moved;
}

}  // namespace ff::bench
