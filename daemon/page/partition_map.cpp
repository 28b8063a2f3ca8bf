#include <fmt/format.h>

#include <algorithm>

#include "base/duration.hpp"
#include "page/markup.hpp"
#include "page/sections.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::daemon::page {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kColumns = 32;
constexpr std::size_t kWorstNamed = 5;

// How long something has been overdue; a cell is filled the higher, the longer.
struct Level {
  Milliseconds from;
  std::string_view text;
};
constexpr Level kLevels[] = {
    {0ms, "under 1 s"}, {1s, "1 s"}, {10s, "10 s"}, {60s, "1 m"}, {600s, "10 m and more"}};

std::size_t level_of(Milliseconds waited) {
  std::size_t level = 0;
  while (level + 1 < std::size(kLevels) && waited >= kLevels[level + 1].from) ++level;
  return level + 1;
}

/// What is overdue in one partition, and for whom longest.
struct Overdue {
  PartitionKey partition;
  Milliseconds waited{0};
  std::string_view reconciler;
};

// Of those reconcilers only that left something over: what the others found is moved. Some have partitions of their own.
std::map<PartitionKey, Overdue> overdue_partitions(const Model& model) {
  std::map<PartitionKey, Overdue> all;
  for (const ReconcilerView& view : model.reconcilers) {
    const reconcile::Reconciler* its = reconcile::find_reconciler(view.name);
    if (!overdue(view, model.now) || (its != nullptr && !its->partition_count.empty())) continue;
    const UnixMillis now = database_now(*view.seen, model.now);
    for (const auto& [partition, since] : view.seen->last.oldest_due_in) {
      Overdue& worst = all[partition];
      const Milliseconds waiting = waited(since, now);
      if (worst.reconciler.empty() || waiting > worst.waited) worst = {partition, waiting, view.name};
    }
  }
  return all;
}

struct Cell {
  bool covered = false;
  std::optional<Milliseconds> waited;
};

std::vector<Cell> cells_of(const Coverage& coverage, const std::map<PartitionKey, Overdue>& overdue,
                           std::size_t per_cell) {
  std::vector<Cell> cells((static_cast<std::size_t>(coverage.count) + per_cell - 1) / per_cell);
  const auto cell_of = [&](PartitionKey key) -> Cell* {
    const std::size_t at = static_cast<std::size_t>(key.value) / per_cell;
    return at < cells.size() ? &cells[at] : nullptr;
  };
  for (const PartitionKey key : coverage.covered)
    if (Cell* cell = cell_of(key)) cell->covered = true;
  for (const auto& [key, its] : overdue)
    if (Cell* cell = cell_of(key)) cell->waited = std::max(cell->waited.value_or(0ms), its.waited);
  return cells;
}

std::string grid(const std::vector<Cell>& cells, std::size_t per_cell, std::string_view label) {
  std::string text = fmt::format(R"(<div class="map{}" role="img" aria-label="{}">)",
                                 cells.size() <= kColumns ? " few" : "", label);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i % kColumns == 0) text += fmt::format("\n<b>{}</b>", i * per_cell);
    if (cells[i].waited)
      text += fmt::format(R"(<i class="l{}" title="{}{}: {}"></i>)", level_of(*cells[i].waited),
                          per_cell == 1 ? "" : "from ", i * per_cell, spoken_duration(*cells[i].waited));
    else
      text += cells[i].covered ? "<i></i>" : R"(<i class="out"></i>)";
  }
  return text + "\n</div>\n";
}

std::string legend(bool left_out) {
  std::string text = "<p class=\"legend\"><span><i></i> nothing overdue</span>";
  for (std::size_t level = 1; level <= std::size(kLevels); ++level)
    text += fmt::format(" <span><i class=\"l{}\"></i> {}</span>", level, kLevels[level - 1].text);
  if (left_out) text += " <span><i class=\"out\"></i> left to other daemons</span>";
  return text + "</p>\n";
}

std::string worst_list(const std::map<PartitionKey, Overdue>& overdue) {
  std::vector<Overdue> worst;
  worst.reserve(overdue.size());
  for (const auto& [key, its] : overdue) worst.push_back(its);
  std::ranges::stable_sort(worst, std::ranges::greater{}, &Overdue::waited);
  worst.resize(std::min(worst.size(), kWorstNamed));
  std::string text = "<ol class=\"worst\">\n";
  for (const Overdue& its : worst)
    text += fmt::format("<li>partition {}: {}, for {}</li>\n", its.partition.value,
                        spoken_duration(its.waited), escaped(its.reconciler));
  return text + "</ol>\n";
}

}  // namespace

std::string partition_map(const Model& model) {
  const auto& coverage = model.board.coverage;
  if (!coverage || coverage->count < 1)
    return section("partitions", "Partitions", "<p class=\"note\">Not counted yet.</p>\n");
  const auto overdue = overdue_partitions(model);
  const std::size_t per_cell = (static_cast<std::size_t>(coverage->count) + kMostCells - 1) / kMostCells;
  const std::string label = fmt::format("{} of {} partitions {} something overdue", overdue.size(),
                                        coverage->count, overdue.size() == 1 ? "has" : "have");
  std::string body = grid(cells_of(*coverage, overdue, per_cell), per_cell, label);
  body += legend(!coverage->left_out.empty()) +
          fmt::format("<p class=\"note\">{}, by the last scans{}.</p>\n", label,
                      per_cell == 1 ? "" : fmt::format("; a cell stands for {}", per_cell));
  if (!overdue.empty()) body += worst_list(overdue);
  return section("partitions", "Partitions", body);
}

}  // namespace ff::daemon::page
