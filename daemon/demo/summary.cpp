#include <fmt/format.h>

#include <algorithm>

#include "demo/view.hpp"

namespace ff::daemon {
namespace {

constexpr const char* kStates[] = {"waiting",   "resumable", "delayed", "suspended", "running",
                                   "completed", "failed",    "expired", "cancelled", "skipped"};

std::string outcomes(const StatusBoard::Totals& totals) {
  std::string text;
  for (const auto& [outcome, number] : totals.outcomes)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", outcome, number);
  return text;
}

// The question as the first column of a line; where its answer does not fit beside it, as a line of its own.
std::string lead(const simulation::Verdict& verdict, int columns) {
  constexpr std::size_t kIndent = 9;
  constexpr std::size_t kQuestion = 39;
  const std::size_t width = kIndent + kQuestion + verdict.numbers.size();
  if (verdict.question.size() < kQuestion && width <= static_cast<std::size_t>(columns))
    return fmt::format("{:<{}}", verdict.question, kQuestion);
  return fmt::format("{}\n{:{}}", verdict.question, "", kIndent);
}

}  // namespace

std::string line(const Scene& scene) {
  std::string text = fmt::format("{}  {:<10}", clock(scene.elapsed), scene.state);
  for (const Scene::Reconciler& its : scene.reconcilers)
    if (its.takes_leases && its.off.empty())
      text += fmt::format("  {}: {} ({:.1f}/s, late by {})", its.name, its.totals.processed, its.rate,
                          lateness(its.totals.worst_lateness));
  std::int64_t others = 0;
  std::int64_t errors = 0;
  for (const Scene::Reconciler& its : scene.reconcilers) {
    others += its.takes_leases ? 0 : its.totals.processed;
    errors += its.totals.errors;
  }
  text += fmt::format("  other reconcilers: {}, {} errors", others, errors);
  text +=
      fmt::format("  workers: {} claims, {} crashes  executions:", scene.work.claimed, scene.work.crashed);
  for (const char* state : kStates) text += fmt::format(" {} {}", scene.census.of(state), state);
  return text;
}

std::string summary(const Scene& scene, const std::vector<simulation::Verdict>& verdicts,
                    const Style& style) {
  const auto coloured = [&](const std::string& text, const char* sgr) {
    return style.colour ? fmt::format("\033[{}m{}\033[0m", sgr, text) : text;
  };
  const simulation::WorkCounts& work = scene.work;
  std::string text = "\n" + coloured("Summary", kBold) + fmt::format(", {} long\n", clock(scene.elapsed));
  for (const Scene::Reconciler& its : scene.reconcilers)
    if (its.totals.processed > 0 || its.totals.errors > 0)
      text += fmt::format("  {:<24} {} rows: {}{}\n", its.name, its.totals.processed, outcomes(its.totals),
                          its.totals.errors > 0 ? fmt::format("; {} errors", its.totals.errors) : "");
  text += fmt::format("  {:<24} {} claims, {} renewals, {} crashes, {} retries\n", "workers", work.claimed,
                      work.renewed, work.crashed, work.retried);
  text += fmt::format("  {:<24} {}:", "executions", scene.census.total());
  for (const char* state : kStates)
    if (const auto number = scene.census.of(state); number > 0) text += fmt::format(" {} {}", number, state);
  text += "\n";
  text += "\n" + coloured("The books", kBold) + "\n";
  bool balanced = true;
  for (const simulation::Verdict& verdict : verdicts) {
    balanced = balanced && verdict.balanced;
    text += "  " + (verdict.balanced ? coloured("right", kGreen) : coloured("WRONG", kRed)) + "  " +
            lead(verdict, style.columns) + coloured(verdict.numbers, kDim) + "\n";
    for (const std::string& line : verdict.evidence) text += "         " + line + "\n";
  }
  return text +
         (balanced ? coloured("The books balance.", kGreen)
                   : coloured("The books do not balance: please report this.", kRed)) +
         "\n";
}

}  // namespace ff::daemon
