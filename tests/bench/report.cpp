#include "bench/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>

#include "base/time.hpp"
#include "bench/compare.hpp"

namespace ff::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLineWidth = 110;

Json json_of(const Machine& machine) {
  return {{"processors", machine.processors}, {"processor", machine.processor},
          {"memory_gib", machine.memory_gib}, {"kernel", machine.kernel},
          {"postgresql", machine.postgresql}, {"settings", machine.settings}};
}

Json json_of(const Way& way) {
  return {{"name", way.name}, {"median", way.median()}, {"rounds", way.rounds}};
}

Json json_of(const Goal& goal) {
  return {{"wanted", goal.wanted}, {"reached", goal.reached}, {"met", goal.met}};
}

Json json_of(const Curve& curve) {
  return {{"name", curve.name}, {"points", curve.points}};
}

Json json_of(const Regime& regime);

template <class Each>
Json list_of(const std::vector<Each>& all) {
  Json list = Json::array();
  for (const Each& each : all) list.push_back(json_of(each));
  return list;
}

Json json_of(const Regime& regime) {
  return {{"name", regime.name},
          {"title", regime.title},
          {"unit", regime.unit},
          {"ways", list_of(regime.ways)},
          {"goals", list_of(regime.goals)},
          {"remarks", regime.remarks},
          {"plot",
           {{"x", regime.plot.x},
            {"y", regime.plot.y},
            {"logarithmic_x", regime.plot.logarithmic_x},
            {"logarithmic_y", regime.plot.logarithmic_y},
            {"curves", list_of(regime.plot.curves)}}}};
}

// What a way is compared with: ours under the same conditions ("floor, 10 rows" with "ours, 10 rows") or else
// the first one. Null: nothing.
const Way* counterpart(const Regime& regime, const Way& way) {
  const auto comma = way.name.find(',');
  const std::string ours = "ours" + (comma == std::string::npos ? "" : way.name.substr(comma));
  const auto same = std::find_if(regime.ways.begin(), regime.ways.end(),
                                 [&](const Way& each) { return each.name == ours; });
  if (same != regime.ways.end() && &*same != &way) return &*same;
  const Way& first = regime.ways.front();
  const bool is_ours = way.name.starts_with("ours") && first.name != "ours";
  return &first == &way || is_ours ? nullptr : &first;
}

std::string ratio(const Regime& regime, const Way& way) {
  const Way* const ours = counterpart(regime, way);
  if (ours == nullptr || way.median() == 0) return "";
  return fmt::format("{} is {} times this", ours->name, figure(ours->median() / way.median()));
}

// In lines broken at spaces.
std::vector<std::string> wrapped(std::string_view text) {
  std::vector<std::string> lines{""};
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > kLineWidth) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + std::string(word);
  }
  return lines;
}

std::string paragraph(std::string_view mark, std::string_view text) {
  std::string all;
  for (const std::string& line : wrapped(text))
    all += fmt::format("  {:<8}{}\n", all.empty() ? mark : "", line);
  return all;
}

}  // namespace

Report::Report(std::ostream& out, std::filesystem::path directory, Machine machine, bool quick)
    : out_(out), directory_(std::move(directory)), machine_(std::move(machine)), quick_(quick) {
  std::filesystem::create_directories(directory_);
  out_ << fmt::format("PostgreSQL {}: {}\n{} processors{}{}, {:.1f} GiB, {}\n\n", machine_.postgresql,
                      machine_.settings, machine_.processors, machine_.processor.empty() ? "" : ", ",
                      machine_.processor, machine_.memory_gib, machine_.kernel)
       << std::flush;
  write_json();
}

void Report::add(Regime regime) {
  print(regime);
  regimes_.push_back(std::move(regime));
  write_json();
}

void Report::add_failure(std::string_view measurement, std::string_view why) {
  out_ << measurement << '\n' << paragraph("FAILED", why) << '\n' << std::flush;
  failures_.emplace_back(measurement, why);
  write_json();
}

void Report::print(const Regime& regime) const {
  std::size_t width = 0;
  for (const Way& way : regime.ways) width = std::max(width, way.name.size());
  out_ << regime.name << '\n' << paragraph("", regime.title);
  for (const Way& way : regime.ways) {
    const std::string compared = ratio(regime, way);
    out_ << fmt::format("          {:<{}}{:>12} {:<{}}{}\n", way.name, width, figure(way.median()),
                        regime.unit, compared.empty() ? 0 : 12, compared);
  }
  for (const Goal& goal : regime.goals)
    out_ << paragraph(goal.met ? "met" : "missed", fmt::format("{}: {}", goal.wanted, goal.reached));
  for (const std::string& remark : regime.remarks) out_ << paragraph("note", remark);
  out_ << '\n' << std::flush;
}

void Report::print_summary() const {
  int wanted = 0, met = 0;
  for (const Regime& regime : regimes_)
    for (const Goal& goal : regime.goals) {
      ++wanted;
      met += goal.met ? 1 : 0;
    }
  out_ << fmt::format("{} of {} wanted figures reached{}; all figures are in {}\n", met, wanted,
                      quick_ ? " (few rows and one round: not to be quoted)" : "",
                      (directory_ / "bench.json").string());
}

void Report::write_json() const {
  Json failures = Json::array();
  for (const auto& [measurement, why] : failures_)
    failures.push_back({{"measurement", measurement}, {"why", why}});
  const Json all = {{"unix_ms", count(Clock::system().wall())},
                    {"quick", quick_},
                    {"machine", json_of(machine_)},
                    {"regimes", list_of(regimes_)},
                    {"failures", failures}};
  std::ofstream file(directory_ / "bench.json", std::ios::trunc);
  file << all.dump(2) << '\n';
  file.close();
  if (!file) throw std::runtime_error("cannot write " + (directory_ / "bench.json").string());
}

}  // namespace ff::bench
