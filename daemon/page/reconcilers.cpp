#include <fmt/format.h>

#include <algorithm>

#include "base/duration.hpp"
#include "explain/words.hpp"
#include "page/markup.hpp"
#include "page/sections.hpp"

namespace ff::daemon::page {
namespace {

constexpr Milliseconds kWorthTelling{200};  // of a tick under way: most take less

std::string state_of(const ReconcilerView& view, UnixMillis now) {
  if (!view.enabled) return R"(<span class="mark off"><span aria-hidden="true">○</span> off</span>)";
  if (view.paused) return mark(Severity::warning, "paused");
  if (!view.seen) return R"(<span class="mark off"><span aria-hidden="true">○</span> not yet run</span>)";
  const int failures = view.seen->consecutive_failures;
  if (failures >= StatusBoard::kFaultyFrom) return mark(Severity::problem, "fails");
  if (failures > 0) return mark(Severity::warning, "failed");
  if (view.held()) return mark(Severity::problem, "held");
  if (late_by(view, now)) return mark(Severity::warning, "late");
  if (view.quarantined() > 0) return mark(Severity::warning, "quarantine");
  return mark(Severity::fine, "works");
}

// The label is for narrow screens, where each row is a block of its own.
std::string cell(std::string_view label, std::string_view value, std::string_view cls = "n") {
  return fmt::format("<td class=\"{}\" data-label=\"{}\">{}</td>", cls, label, value);
}

std::string moment_or_none(const std::optional<UnixMillis>& at, UnixMillis now) {
  return at && count(*at) > 0 ? moment(*at, now) : R"(<span class="none">–</span>)";
}

// By the database's clock, as we last knew it. What has fallen due since the last scan is taken now.
std::string next_due(const ReconcilerView& view, UnixMillis now) {
  if (!view.enabled || view.paused || !view.seen) return moment_or_none(std::nullopt, now);
  const auto at = view.seen->last.next_due;
  const UnixMillis there = database_now(*view.seen, now);
  if (at && count(*at) > 0 && *at > there) return moment(*at, there);
  return explain::next(at, next_due_known_until(*view.seen), there);
}

std::string number_or_none(std::int64_t number) {
  return number == 0 ? R"(<span class="none">0</span>)" : grouped(number);
}

std::string rate_cell(const ReconcilerView& view) {
  std::int64_t moved = 0;
  for (const auto& step : view.history) moved += step.moved;
  return cell("moved in 15 min", bars(view.history) + "<span>" + number_or_none(moved) + "</span>",
              "n chart");
}

std::string lateness_cell(const ReconcilerView& view) {
  Milliseconds worst{0};
  for (const auto& step : view.history) worst = std::max(worst, step.late);
  const std::string text =
      worst > Milliseconds{0} ? spoken_duration(worst) : R"(<span class="none">–</span>)";
  return cell("worst lateness", curve(view.history) + "<span>" + text + "</span>", "n chart");
}

std::string due_text(const ReconcilerView& view) {
  if (!view.enabled) return R"(<span class="none">–</span>)";
  const auto [rows, more] = reconcile::due_now(view.left(), view.reads_on() || view.held(),
                                               view.running ? view.running->rows.left() : 0);
  return more ? grouped(rows) + "+" : number_or_none(rows);
}

std::string oldest_due(const ReconcilerView& view, UnixMillis now) {
  const auto waited = overdue(view, now);
  return waited ? spoken_duration(*waited) : R"(<span class="none">–</span>)";
}

// Or that which is under way, if it takes so long that somebody may wonder.
std::string last_tick(const ReconcilerView& view, UnixMillis now) {
  if (view.running && now - view.running->since >= kWorthTelling)
    return fmt::format("runs for {}, {} moved", explain::age(view.running->since, now),
                       grouped(view.running->rows.processed));
  return moment_or_none(view.seen ? std::optional(view.seen->last_tick) : std::nullopt, now);
}

std::string row(const ReconcilerView& view, UnixMillis now) {
  static const StatusBoard::Entry kNothing{};
  const StatusBoard::Entry& seen = view.seen ? *view.seen : kNothing;
  return fmt::format("<tr{}><th scope=\"row\">{}</th>", view.enabled ? "" : R"( class="off")",
                     escaped(view.name)) +
         cell("state", state_of(view, now), "state") + rate_cell(view) +
         cell("moved in all", number_or_none(seen.totals.processed)) + lateness_cell(view) +
         cell("due now", due_text(view)) + cell("oldest due for", oldest_due(view, now)) +
         cell("next due", next_due(view, now)) + cell("last tick", last_tick(view, now)) +
         cell("errors", number_or_none(seen.totals.errors)) + "</tr>\n";
}

}  // namespace

std::string reconciler_table(const Model& model) {
  std::string rows;
  for (const ReconcilerView& view : model.reconcilers) rows += row(view, model.now);
  return section(
      "reconcilers", "Reconcilers",
      "<table><thead><tr><th scope=\"col\">reconciler</th><th scope=\"col\">state</th>"
      "<th scope=\"col\" class=\"n\">moved in 15 min</th><th scope=\"col\" class=\"n\">in all</th>"
      "<th scope=\"col\" class=\"n\">worst lateness</th>"
      "<th scope=\"col\" class=\"n\">due now</th><th scope=\"col\" class=\"n\">oldest due for</th>"
      "<th scope=\"col\" class=\"n\">next due</th><th scope=\"col\" class=\"n\">last tick</th>"
      "<th scope=\"col\" class=\"n\">errors</th></tr></thead>\n<tbody>\n" +
          rows +
          "</tbody></table>\n<p class=\"note\">Due: left over by the last scan; with a +, there were more "
          "than it read. Lateness: from due to committed, "
          "or still waiting; its line and the bars are the last 15 minutes, 15 s each.</p>\n");
}

}  // namespace ff::daemon::page
