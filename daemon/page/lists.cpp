#include <fmt/format.h>

#include <algorithm>

#include "base/duration.hpp"
#include "base/printable.hpp"
#include "explain/words.hpp"
#include "page/markup.hpp"
#include "page/sections.hpp"
#include "report_json.hpp"

namespace ff::daemon::page {
namespace {

struct ListedRow {
  const ReconcilerView* view;
  const reconcile::QuarantinedRow* row;
};

std::vector<ListedRow> quarantined_rows(const Model& model) {
  std::vector<ListedRow> rows;
  for (const ReconcilerView& view : model.reconcilers)
    if (view.quarantined() > 0)
      for (const reconcile::QuarantinedRow& row : view.seen->last.quarantine_rows)
        rows.push_back({&view, &row});
  if (rows.size() > kMostQuarantinedShown) rows.resize(kMostQuarantinedShown);
  return rows;
}

std::string quarantined_row(const ListedRow& its, const Model& model) {
  const auto& [view, row] = its;
  const UnixMillis next_try = view->seen->last_tick + row->next_try_in;
  std::vector<std::string> commands = commands_for(view->name, *row);
  for (std::string& command : commands) command = with_config(model, std::move(command));
  std::string text = fmt::format(
      "<li><strong>{}</strong> partition {} <code>{}</code>\n<p>failed {}; {}: {}</p>\n", escaped(view->name),
      row->key.partition.value, row->pair == nullptr ? "" : escaped(dump(key_json(*row->pair, row->key))),
      row->tries == 1 ? "once" : fmt::format("{} times", row->tries),
      next_try > model.now ? "next try " + explain::when(next_try, model.now) : "tried at the next scan",
      escaped(failure_text(row->sqlstate, row->message)));
  return text + command_lines(commands) + "</li>\n";
}

std::string pool_fact(std::string_view name, int value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, value);
}

}  // namespace

std::string quarantine_list(const Model& model) {
  std::size_t in_all = 0;
  for (const ReconcilerView& view : model.reconcilers) in_all += view.quarantined();
  if (in_all == 0) return "";
  const auto rows = quarantined_rows(model);
  std::string list = "<ul>\n";
  for (const ListedRow& row : rows) list += quarantined_row(row, model);
  list += "</ul>\n";
  if (rows.size() < in_all)
    list += fmt::format("<p class=\"note\">{} more are not shown.</p>\n",
                        grouped(static_cast<std::int64_t>(in_all - rows.size())));
  return section(
      "quarantine",
      fmt::format("Rows in quarantine <small>{}</small>", grouped(static_cast<std::int64_t>(in_all))), list);
}

std::string event_list(const Model& model) {
  if (model.events.empty())
    return section("events", "Recent events", "<p class=\"note\">None since the start.</p>\n");
  std::string list = "<ol>\n";
  for (const Event& event : model.events)
    list +=
        fmt::format("<li>{} {} <strong>{}</strong> {}{}</li>\n", moment(event.last, model.now),
                    mark(event.severity, css(event.severity)), escaped(event.subject), escaped(event.text),
                    event.times == 1 ? ""
                                     : fmt::format(" <small>{} times, first {}</small>", grouped(event.times),
                                                   moment(event.at, model.now)));
  return section("events", "Recent events", list + "</ol>\n");
}

std::string connections(const Model& model) {
  const pg::PoolState& pool = model.pool;
  return section("connections", "Connections",
                 "<dl class=\"facts\">\n" + pool_fact("in use", pool.in_use) + pool_fact("idle", pool.idle) +
                     pool_fact("at most", pool.size) + pool_fact("ticks that wait for one", pool.waiting) +
                     "</dl>\n");
}

std::string configuration(const Model& model) {
  std::string text;
  for (std::size_t from = 0; from < model.configuration.size();) {
    const std::size_t end = std::min(model.configuration.find('\n', from), model.configuration.size());
    text += escaped(std::string_view{model.configuration}.substr(from, end - from), kLongestShown) + '\n';
    from = end + 1;
  }
  const std::string waiting =
      model.wanting_restart.empty()
          ? ""
          : fmt::format("<p class=\"note\">Until a restart the former values hold of: {}.</p>\n",
                        escaped(fmt::format("{}", fmt::join(model.wanting_restart, ", "))));
  return section("configuration", "Configuration",
                 waiting + "<details><summary>what holds, secrets hidden</summary>\n<pre>" + text +
                     "</pre></details>\n");
}

}  // namespace ff::daemon::page
