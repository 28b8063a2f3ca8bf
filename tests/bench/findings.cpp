#include "bench/findings.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <stdexcept>

#include "base/fragments.hpp"
#include "bench/backlog.hpp"
#include "bench/sql_file.hpp"

namespace ff::bench {
namespace {

using YAML::Node;

const Node& descriptions() {
  static const Node all = YAML::LoadFile(path_in_bench("regimes.yaml"));
  return all;
}

std::string text_of(const Node& node) {
  return node.as<std::string>();
}

Fragments placeholders(const Findings& findings) {
  Fragments all;
  for (const auto& [name, value] : findings.numbers) all.add({name, figure(value)});
  for (const auto& [name, value] : findings.words) all.add({name, value});
  return all;
}

const Way& way_of(const Findings& findings, const Node& name) {
  const auto found = std::ranges::find(findings.ways, text_of(name), &Way::name);
  if (found == findings.ways.end())
    throw std::runtime_error(fmt::format("{}: nobody is \"{}\"", findings.regime, text_of(name)));
  return *found;
}

// The ratio of two ways' rounds, a number that was noted, or a way's median.
double reached(const Node& goal, const Findings& findings) {
  if (const Node ratio = goal["ratio"])
    return median_ratio(way_of(findings, ratio[0]), way_of(findings, ratio[1]));
  const auto noted = findings.numbers.find(text_of(goal["figure"]));
  return noted != findings.numbers.end() ? noted->second : way_of(findings, goal["figure"]).median();
}

Goal goal_of(const Node& goal, const std::string& unit, const Findings& findings, Fragments texts) {
  const std::string bound = goal["at least"] ? "at least" : "at most";
  const double limit = goal[bound].as<double>(), value = reached(goal, findings);
  texts.add({"limit", fmt::format("{}", limit)}).add({"reached", figure(value)});
  const auto text = [&](const char* which, const std::string& unless_given) {
    return texts.expand(goal[which] ? text_of(goal[which]) : unless_given);
  };
  const Node ratio = goal["ratio"];
  return {text("wanted", ratio ? bound + " {limit} times " + text_of(ratio[1])
                               : text_of(goal["figure"]) + " " + bound + " {limit} " + unit),
          text("reached", ratio ? "{reached} times" : "{reached} " + unit),
          bound == "at least" ? value >= limit : value <= limit};
}

// A text, or {when: NAME, text: …} for where that was noted.
bool holds(const Node& remark, const Findings& findings) {
  if (remark.IsScalar()) return true;
  const std::string name = text_of(remark["when"]);
  return findings.numbers.contains(name) || findings.words.contains(name);
}

Plot plot_of(const Node& plot, std::vector<Curve> curves) {
  if (!plot) return {.x = "", .y = "", .curves = std::move(curves)};
  return {.x = text_of(plot["x"]),
          .y = text_of(plot["y"]),
          .logarithmic_x = true,
          .logarithmic_y = plot["logarithmic"] && text_of(plot["logarithmic"]) == "both",
          .curves = std::move(curves)};
}

}  // namespace

void Findings::add(const Rounds& rounds, const std::vector<double>& shares) {
  for (const double share : shares) ways.push_back(rounds.way(share));
  curves.push_back(rounds.curve());
}

void read_descriptions() {
  descriptions();
}

Regime described(Findings findings) {
  const Node node = descriptions()[findings.described_as.empty() ? findings.regime : findings.described_as];
  findings.numbers.try_emplace("partitions", kPartitions);
  try {
    const Fragments texts = placeholders(findings);
    Regime regime{.name = findings.regime,
                  .title = texts.expand(text_of(node["title"])),
                  .unit = text_of(node["unit"])};
    for (const Node& each : node["goals"])
      regime.goals.push_back(goal_of(each, regime.unit, findings, texts));
    for (const Node& each : node["remarks"])
      if (holds(each, findings))
        regime.remarks.push_back(texts.expand(text_of(each.IsScalar() ? each : each["text"])));
    regime.plot = plot_of(node["plot"], std::move(findings.curves));
    regime.ways = std::move(findings.ways);
    return regime;
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("regimes.yaml, {}: {}", findings.regime, error.what()));
  }
}

}  // namespace ff::bench
