#include "bench/stock.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "bench/sql_file.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::bench {
namespace {

const SqlStatement& stock_of(const std::string& reconciler) {
  return sql_file(reconciler + "/stock").at(0);
}

// Times that somebody wrote in this century have thirteen digits; a signal's id is drawn.
std::string digest(pg::Connection& connection, std::string_view table) {
  return connection
      .execute(fmt::format(R"sql(
SELECT count(*) || ' rows ' || md5(coalesce(string_agg(line, E'\n' ORDER BY line), ''))
  FROM (SELECT regexp_replace((to_jsonb(t) - 'event_id')::text, '\m1[5-9]\d{{11}}\M|"signal_id": "[^"]*"', 'now', 'g') AS line
          FROM {} t) lines)sql",
                           table))
      .one()
      .get<std::string>(0);
}

}  // namespace

Stock::Stock(pg::Connection& keeper, const std::string& reconciler)
    : keeper_(keeper),
      reconciler_(reconciler),
      insert_(stock_of(reconciler).text),
      rows_are_(stock_of(reconciler).note("rows are")),
      per_partition_(stock_of(reconciler).number("rows per partition")),
      tables_(stock_of(reconciler).words("tables")) {}

void Stock::run(std::string_view command) {
  keeper_.execute_script(fmt::format("{} {}", command, fmt::join(tables_, ", ")), patiently());
}

void Stock::fill(int rows, int partitions) {
  if (filled_) clear();
  filled_ = true;
  keeper_.execute(insert_, pg::Params::of(rows, partitions), patiently());
  run("VACUUM");
  const std::pair size{rows, partitions};
  if (std::exchange(analyzed_, size) != size) run("ANALYZE");
}

void Stock::clear() {
  empty(keeper_, tables_);
}

void Stock::check(std::int64_t moved, std::int64_t left) {
  const std::string file = reconciler_ + "/check";
  if (!has_sql_file(file)) return;
  for (const pg::Row& wrong :
       keeper_.execute(sql_file(file).at(0).text, pg::Params::of(moved, left), patiently()))
    throw std::runtime_error(fmt::format("{}: {} {} instead of {}", reconciler_, wrong.get<std::int64_t>(1),
                                         wrong.get<std::string_view>(0), wrong.get<std::int64_t>(2)));
}

std::vector<std::string> Stock::end_state() {
  std::vector<std::string> state;
  for (const std::string& table : tables_)
    state.push_back(fmt::format("{}: {}", table, digest(keeper_, table)));
  return state;
}

Settings settings_for_stock(const reconcile::Reconciler& reconciler) {
  Settings settings = reconcile::default_settings(reconciler);
  if (const auto found = settings.find("stale_threshold"); found != settings.end())
    found->second = kStale.count();
  return settings;
}

}  // namespace ff::bench
