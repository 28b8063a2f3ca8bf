#include "demo_view.hpp"

#include <fmt/format.h>
#include <algorithm>

namespace ff::daemon {
namespace {

using namespace std::chrono_literals;
using Doing = sandbox::WorkerState::Doing;
using Lines = std::vector<std::string>;

constexpr Milliseconds kRateWindow = 5s;
constexpr std::size_t kIdWidth = 7;

std::string clock(Milliseconds elapsed) {
  const auto total = elapsed.count() / 1000;
  return fmt::format("{:02}:{:02}", total / 60, total % 60);
}

std::string seconds_text(Milliseconds time) {
  return fmt::format("{:.1f} s", seconds(std::max(time, Milliseconds{0})));
}

std::string lateness(const std::vector<Milliseconds>& all) {
  return all.empty() ? "-" : fmt::format("{} ms", std::max_element(all.begin(), all.end())->count());
}

std::string outcomes(const StatusBoard::Totals& totals) {
  std::string text;
  for (const auto& [outcome, number] : totals.outcomes)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", outcome, number);
  return text;
}

std::string brief(const sandbox::Claim& claim) {
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

Lines head(const Scene& scene, const Style& style) {
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

Lines story(const Scene& scene, const Style& style) {
  const auto told = [&](const std::string& text) { return StyledLine(style).add(text); };
  if (scene.state == "recovering")
    return {told(" The server has just started. Workers could not renew their leases while it was"),
            told(" away, so nothing is taken from them yet: that is the recovery grace. Leases of"),
            told(" workers that crash meanwhile lapse, and wait.")};
  return {told(fmt::format(" Workers claim executions, each under a lease of {}. One that crashes never",
                           seconds_text(scene.lease_ttl))),
          told(" says so: its lease lapses. lease_expiry then lets another worker go on; if that"),
          told(" crashes as well, attempt_timeout spends a retry, or ends it when none is left.")};
}

Lines reconcilers(const Scene& scene, const Style& style) {
  Lines lines{
      StyledLine(style)
          .add(" DAEMON", kBold)
          .column(22)
          .add(fmt::format("{:>7} {:>7} {:>5} {:>9}   outcomes", "rows", "per s", "due", "late by"), kDim)};
  std::string idle;
  for (const Scene::Reconciler& its : scene.reconcilers) {
    if (!its.takes_leases && its.totals.processed == 0 && its.totals.errors == 0) {
      idle += (idle.empty() ? "" : ", ") + its.name;
      continue;
    }
    StyledLine row(style);
    row.add(" " + its.name).column(22);
    row.add(fmt::format("{:>7} {:>7.1f} {:>5} {:>9}   ", its.totals.processed, its.rate, its.totals.due,
                        lateness(its.totals.lateness)));
    if (its.totals.errors > 0) row.add(fmt::format("{} errors ", its.totals.errors), kRed);
    lines.push_back(row.add(outcomes(its.totals), kGreen));
  }
  if (!idle.empty()) lines.push_back(StyledLine(style).add(" nothing due: " + idle, kDim));
  return lines;
}

std::string worker_line(const Scene& scene, const sandbox::WorkerState& worker, const Style& style) {
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
  line.add(bar(std::min(done, worker.planned).count(), worker.planned.count(), 20, style), kGreen);
  line.add(" " + seconds_text(worker.planned), kDim);
  if (worker.claim->attempt_index > 0)
    line.add(fmt::format("  retry {}", worker.claim->attempt_index), kYellow);
  if (worker.claim->lease_epoch > 1) line.add("  continues after a crash", kYellow);
  return line;
}

Lines workers(const Scene& scene, const Style& style) {
  const sandbox::WorkCounts& work = scene.work;
  Lines lines{
      StyledLine(style)
          .add(" WORKERS", kBold)
          .column(22)
          .add(fmt::format("{} claims, {} crashes, {} came back too late ({} refused)", work.claimed,
                           work.crashed, work.ghosts_refused + work.ghosts_accepted, work.ghosts_refused),
               kDim)};
  for (const sandbox::WorkerState& worker : scene.workers) lines.push_back(worker_line(scene, worker, style));
  return lines;
}

Lines executions(const Scene& scene, const Style& style) {
  const sandbox::Census& census = scene.census;
  StyledLine states(style);
  states.add(" ");
  const std::pair<const char*, const char*> shown[] = {
      {"waiting", ""}, {"running", kCyan}, {"completed", kGreen}, {"failed", kYellow}, {"expired", kRed}};
  for (const auto& [state, sgr] : shown) states.add(fmt::format("{} {}   ", state, census.of(state)), sgr);
  return {StyledLine(style)
              .add(" EXECUTIONS", kBold)
              .column(22)
              .add(fmt::format("{} in all; {} leases held, {} of them lapsed", census.total(), census.leases,
                               census.lapsed),
                   kDim),
          states};
}

Lines latest(const Scene& scene, const Style& style, std::size_t most) {
  Lines lines{StyledLine(style).add(" LATELY", kBold)};
  const std::size_t number = std::min(most - 1, scene.latest.size());
  for (auto it = scene.latest.end() - static_cast<std::ptrdiff_t>(number); it != scene.latest.end(); ++it) {
    const Milliseconds at = scene.elapsed - since(scene, it->at);
    lines.push_back(StyledLine(style).add(" " + clock(at) + "  ", kDim).add(it->text));
  }
  return lines;
}

void append(Lines& all, Lines more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

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
  constexpr std::size_t kRoomForAll = 30;
  constexpr Milliseconds kFirstGlance = 15s;
  constexpr std::size_t kLeastLatest = 3;
  const auto rows = static_cast<std::size_t>(std::max(style.rows, 1));
  std::vector<Lines> sections{reconcilers(scene, style), executions(scene, style), workers(scene, style)};
  // On a small screen the explanation gives way to what happens, once it can have been read.
  if (rows >= kRoomForAll || scene.elapsed < kFirstGlance || scene.state == "recovering")
    sections.insert(sections.begin(), story(scene, style));

  Lines lines = head(scene, style);
  std::size_t needed = lines.size();
  for (const Lines& section : sections) needed += section.size() + 1;
  const bool airy = needed <= rows;
  if (!airy && sections.size() > 3) sections.erase(sections.begin());
  for (const Lines& section : sections) {
    if (airy) lines.push_back("");
    append(lines, section);
  }
  if (lines.size() + kLeastLatest <= rows) {
    lines.push_back("");
    append(lines, latest(scene, style, rows - lines.size()));
  }
  if (lines.size() > rows) lines.resize(rows);
  return lines;
}

std::string line(const Scene& scene) {
  std::string text = fmt::format("{}  {:<10}", clock(scene.elapsed), scene.state);
  for (const Scene::Reconciler& its : scene.reconcilers)
    if (its.totals.processed > 0 || its.totals.errors > 0)
      text += fmt::format("  {}: {} ({:.1f}/s, late by {}, {} errors)", its.name, its.totals.processed,
                          its.rate, lateness(its.totals.lateness), its.totals.errors);
  text +=
      fmt::format("  workers: {} claims, {} crashes  executions:", scene.work.claimed, scene.work.crashed);
  for (const char* state : {"waiting", "running", "completed", "failed", "expired"})
    text += fmt::format(" {} {}", scene.census.of(state), state);
  return text;
}

std::string summary(const Scene& scene, const std::vector<sandbox::Verdict>& verdicts, const Style& style) {
  const auto coloured = [&](const std::string& text, const char* sgr) {
    return style.colour ? fmt::format("\033[{}m{}\033[0m", sgr, text) : text;
  };
  const sandbox::WorkCounts& work = scene.work;
  std::string text = "\n" + coloured("Summary", kBold) + fmt::format(", {} long\n", clock(scene.elapsed));
  for (const Scene::Reconciler& its : scene.reconcilers)
    if (its.totals.processed > 0 || its.totals.errors > 0)
      text += fmt::format("  {:<20} {} rows: {}{}\n", its.name, its.totals.processed, outcomes(its.totals),
                          its.totals.errors > 0 ? fmt::format("; {} errors", its.totals.errors) : "");
  text += fmt::format("  {:<20} {} claims, {} renewals, {} crashes, {} retries\n", "workers", work.claimed,
                      work.renewed, work.crashed, work.retried);
  text += fmt::format("  {:<20} {}:", "executions", scene.census.total());
  for (const char* state : {"completed", "failed", "expired", "waiting"})
    text += fmt::format(" {} {}{}", scene.census.of(state), state,
                        state == std::string_view("waiting") ? "\n" : ",");
  text += "\n" + coloured("The books", kBold) + "\n";
  bool balanced = true;
  for (const sandbox::Verdict& verdict : verdicts) {
    balanced = balanced && verdict.balanced;
    text += "  " + (verdict.balanced ? coloured("right", kGreen) : coloured("WRONG", kRed)) + "  " +
            verdict.question + "\n         " + coloured(verdict.numbers, kDim) + "\n";
    for (const std::string& line : verdict.evidence) text += "         " + line + "\n";
  }
  return text +
         (balanced ? coloured("The books balance.", kGreen)
                   : coloured("The books do not balance: please report this.", kRed)) +
         "\n";
}

}  // namespace ff::daemon
