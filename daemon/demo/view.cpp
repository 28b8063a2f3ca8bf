#include "demo/view.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ff::daemon {
namespace {

using namespace std::chrono_literals;
using Doing = simulation::WorkerState::Doing;
using TextLines = std::vector<std::string>;

constexpr Milliseconds kRateWindow = 5s;
constexpr std::size_t kIdWidth = 7;

std::string seconds_text(Milliseconds time) {
  return fmt::format("{:.1f} s", seconds(std::max(time, Milliseconds{0})));
}

// As many as fit.
std::string outcomes(const StatusBoard::Totals& totals, int room) {
  const std::string rest = " ..";
  const auto fits = [&](std::size_t length) { return static_cast<int>(length) <= room; };
  std::string text;
  std::string beginning;  // as much as fits together with the sign that there is more
  for (const auto& [outcome, number] : totals.outcomes) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", outcome, number);
    if (fits(text.size() + rest.size())) beginning = text;
  }
  return fits(text.size()) ? text : beginning + rest;
}

std::string brief(const simulation::Claim& claim) {
  return to_string(claim.execution.uuid).substr(0, 8);
}

Milliseconds since(const Scene& scene, SteadyTime at) {
  return std::chrono::duration_cast<Milliseconds>(scene.now - at);
}

std::string bar(std::int64_t part, std::int64_t whole, int columns, const Style& style) {
  if (whole <= 0) return "";
  const auto filled =
      static_cast<int>(std::clamp<std::int64_t>(part * columns / whole, part > 0 ? 1 : 0, columns));
  std::string text;
  for (int i = 0; i < filled; ++i) text += style.unicode ? "█" : "#";
  for (int i = filled; i < columns; ++i) text += style.unicode ? "░" : ".";
  return text;
}

const char* state_sgr(const std::string& state) {
  return state == "ready" ? kGreen : state == "recovering" || state == "starting" ? kYellow : kRed;
}

TextLines head(const Scene& scene, const Style& style) {
  const std::string how_long =
      scene.length ? clock(scene.elapsed) + " of " + clock(*scene.length) : clock(scene.elapsed);
  const std::string how_to_end =
      scene.private_database ? "Ctrl-C ends and removes everything " : "Ctrl-C ends ";
  return {StyledLine(style)
              .add(" ff-reconcilerd demo ", kTitle)
              .add("  ")
              .add(scene.state, state_sgr(scene.state))
              .add("  " + how_long)
              .right(how_to_end, kBold),
          StyledLine(style).add(" database  ", kDim).add(scene.database),
          StyledLine(style).add(" metrics   ", kDim).add(scene.metrics_url, kCyan)};
}

TextLines story(const Scene& scene, const Style& style) {
  const auto told = [&](const std::string& text) { return StyledLine(style).add(text); };
  if (scene.state == "recovering")
    return {told(" The server has just started. Workers could not renew their leases while it was"),
            told(" away, so nothing is taken from them yet: that is the recovery grace. Leases of"),
            told(" workers that crash meanwhile lapse, and wait.")};
  return {told(fmt::format(" Workers claim executions, each under a lease of {}. One that crashes never",
                           seconds_text(scene.lease_ttl))),
          told(" says so: its lease lapses. lease_expiry then lets another worker go on; if that"),
          told(" crashes as well, attempt_timeout spends a retry, or ends it when none is left."),
          told(" Beside that: delays, deadlines, suspensions, flows, budgets, silent workers.")};
}

// Reconcilers with all their numbers, one a line, and what is off; `only_leases`: without the others.
TextLines table(const Scene& scene, const Style& style, bool only_leases) {
  const int kNumbers = only_leases ? 22 : 26;
  constexpr int kNumbersWidth = 34;
  TextLines lines{
      StyledLine(style)
          .add(" DAEMON", kBold)
          .column(kNumbers)
          .add(fmt::format("{:>7} {:>7} {:>5} {:>9}   outcomes", "rows", "per s", "due", "late by"), kDim)};
  for (const Scene::Reconciler& its : scene.reconcilers) {
    if (only_leases && !its.takes_leases) continue;
    StyledLine row(style);
    row.add(" " + its.name).column(kNumbers);
    if (!its.off.empty()) {
      lines.push_back(row.add(fmt::format("{:>7}   {}", "off", its.off), kDim));
      continue;
    }
    row.add(fmt::format("{:>7} {:>7.1f} {:>5} {:>9}   ", its.totals.processed, its.rate, its.totals.due,
                        lateness(its.totals.worst_lateness)));
    if (its.totals.errors > 0) row.add(fmt::format("{} errors ", its.totals.errors), kRed);
    lines.push_back(row.add(outcomes(its.totals, style.columns - kNumbers - kNumbersWidth), kGreen));
  }
  return lines;
}

// The same in little space: those that take leases in full, of the others how many rows they have moved.
TextLines grid(const Scene& scene, const Style& style) {
  constexpr int kColumns[] = {1, 41};
  constexpr int kNumber = 25;
  TextLines lines = table(scene, style, true);
  std::vector<const Scene::Reconciler*> others;
  for (const Scene::Reconciler& its : scene.reconcilers)
    if (!its.takes_leases) others.push_back(&its);
  const std::size_t half = (others.size() + 1) / 2;
  for (std::size_t i = 0; i < half; ++i) {
    StyledLine row(style);
    for (std::size_t side = 0; side < 2; ++side) {
      if (i + side * half >= others.size()) break;
      const Scene::Reconciler& its = *others[i + side * half];
      row.column(kColumns[side]).add(its.name, its.off.empty() ? "" : kDim).column(kColumns[side] + kNumber);
      if (!its.off.empty())
        row.add("off", kDim);
      else if (its.totals.errors > 0)
        row.add(fmt::format("{} errors", its.totals.errors), kRed);
      else
        row.add(fmt::format("{:>7}", its.totals.processed), kGreen);
    }
    lines.push_back(row);
  }
  return lines;
}

std::string worker_line(const Scene& scene, const simulation::WorkerState& worker, const Style& style) {
  const Milliseconds done = since(scene, worker.since);
  StyledLine line(style);
  line.add(" " + worker.id).column(static_cast<int>(kIdWidth) + 2);
  switch (worker.doing) {
    case Doing::waiting:
      return line.add("waits for an execution", kDim);
    case Doing::ended:
      return line.add("has ended", kDim);
    case Doing::crashed:
      return line.add("crashed  ", kRed)
          .add(brief(*worker.claim))
          .add(" is left behind; a new worker starts in " + seconds_text(worker.planned - done), kDim);
    case Doing::working:
      break;
  }
  line.add("working  ", kGreen).add(brief(*worker.claim) + " ");
  if (worker.planned.count() > 0) {
    line.add(bar(std::min(done, worker.planned).count(), worker.planned.count(), 20, style), kGreen);
    line.add(" " + seconds_text(worker.planned), kDim);
  }
  if (!worker.note.empty()) return line.add("  " + worker.note, kYellow);
  if (worker.claim->attempt_index > 0)
    line.add(fmt::format("  retry {}", worker.claim->attempt_index), kYellow);
  if (worker.claim->lease_epoch > 1) line.add("  continues what was begun", kYellow);
  return line;
}

TextLines workers(const Scene& scene, const Style& style) {
  const simulation::WorkCounts& work = scene.work;
  TextLines lines{
      StyledLine(style)
          .add(" WORKERS", kBold)
          .column(22)
          .add(fmt::format("{} claims, {} crashes, {} back too late ({} refused)", work.claimed, work.crashed,
                           work.ghosts_refused + work.ghosts_accepted, work.ghosts_refused),
               kDim)};
  for (const simulation::WorkerState& worker : scene.workers)
    lines.push_back(worker_line(scene, worker, style));
  return lines;
}

TextLines executions(const Scene& scene, const Style& style) {
  const simulation::Census& census = scene.census;
  StyledLine alive(style);
  alive.add(" EXECUTIONS", kBold).column(22);
  alive.add(fmt::format("waiting {}   ", census.of("waiting") + census.of("resumable")));
  for (const char* state : {"delayed", "suspended"})
    alive.add(fmt::format("{} {}   ", state, census.of(state)), kYellow);
  alive.add(fmt::format("running {}", census.of("running")), kCyan);
  if (census.lapsed > 0) alive.add(fmt::format(", {} with a lapsed lease", census.lapsed), kRed);
  StyledLine ended(style);
  ended.add(" ended", kDim).column(9);
  const std::pair<const char*, const char*> shown[] = {
      {"completed", kGreen}, {"failed", kYellow}, {"expired", kRed}, {"cancelled", ""}, {"skipped", ""}};
  for (const auto& [state, sgr] : shown) ended.add(fmt::format("{} {}  ", state, census.of(state)), sgr);
  return {alive, ended};
}

TextLines latest(const Scene& scene, const Style& style, std::size_t most) {
  TextLines lines{StyledLine(style).add(" LATELY", kBold)};
  const std::size_t number = std::min(most - 1, scene.latest.size());
  for (auto it = scene.latest.end() - static_cast<std::ptrdiff_t>(number); it != scene.latest.end(); ++it) {
    const Milliseconds at = scene.elapsed - since(scene, it->at);
    lines.push_back(StyledLine(style).add(" " + clock(at) + "  ", kDim).add(it->text));
  }
  return lines;
}

void append(TextLines& all, TextLines more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

std::string clock(Milliseconds elapsed) {
  const auto total = elapsed.count() / 1000;
  return fmt::format("{:02}:{:02}", total / 60, total % 60);
}

std::string lateness(std::optional<Milliseconds> worst) {
  return worst ? fmt::format("{} ms", std::max<std::int64_t>(worst->count(), 0)) : "-";
}

void Rates::observe(SteadyTime now, std::map<std::string, std::int64_t> totals) {
  samples_.emplace_back(now, std::move(totals));
  while (samples_.size() > 2 && samples_.front().first < now - kRateWindow) samples_.pop_front();
}

double Rates::of(const std::string& name) const {
  if (samples_.size() < 2) return 0;
  const auto& [first_at, first] = samples_.front();
  const auto& [last_at, last] = samples_.back();
  const double span = std::chrono::duration<double>(last_at - first_at).count();
  const auto before = first.find(name);
  const auto after = last.find(name);
  if (after == last.end() || span <= 0) return 0;
  return static_cast<double>(after->second - (before == first.end() ? 0 : before->second)) / span;
}

std::vector<std::string> screen(const Scene& scene, const Style& style) {
  constexpr std::size_t kRoomForTable = 32;
  constexpr Milliseconds kFirstGlance = 15s;
  constexpr std::size_t kLeastLatest = 3;
  const auto rows = static_cast<std::size_t>(std::max(style.rows, 1));
  const bool roomy = rows >= kRoomForTable;
  std::vector<TextLines> sections{roomy ? table(scene, style, false) : grid(scene, style),
                                  executions(scene, style), workers(scene, style)};
  // On a small screen the explanation gives way to what happens, once it can have been read.
  if (roomy || scene.elapsed < kFirstGlance || scene.state == "recovering")
    sections.insert(sections.begin(), story(scene, style));

  TextLines lines = head(scene, style);
  std::size_t needed = lines.size();
  for (const TextLines& section : sections) needed += section.size();
  const bool airy = needed + sections.size() + 1 + kLeastLatest <= rows;
  if (needed > rows && sections.size() > 3) sections.erase(sections.begin());
  for (const TextLines& section : sections) {
    if (airy) lines.push_back("");
    append(lines, section);
  }
  if (airy) lines.push_back("");
  if (lines.size() + kLeastLatest <= rows) append(lines, latest(scene, style, rows - lines.size()));
  if (lines.size() > rows) lines.resize(rows);
  return lines;
}

}  // namespace ff::daemon
