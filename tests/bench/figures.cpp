#include "bench/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ff::bench {
namespace {

std::string with_thousands(std::string digits) {
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

// How many digits behind the point leave three that say something. A whole number is a count, and has none.
int decimals(double size) {
  if (size >= 100 || size == std::floor(size)) return 0;
  if (size >= 10) return 1;
  if (size >= 1) return 2;
  return std::min(6, 2 - static_cast<int>(std::floor(std::log10(size))));
}

constexpr double kLeastDrawn = 0.01;  // a logarithmic axis has no zero
constexpr int kPoints = 200;

double at_share(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

}  // namespace

void take_turns(int rounds, const std::vector<std::function<void()>>& turns) {
  for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round)
    for (std::size_t turn = 0; turn < turns.size(); ++turn) turns[(round + turn) % turns.size()]();
}

double seconds_since(SteadyTime start) {
  return std::chrono::duration<double>(Clock::system().now() - start).count();
}

double seconds_taken(const std::function<void()>& work) {
  const SteadyTime started = Clock::system().now();
  work();
  return seconds_since(started);
}

double median(std::vector<double> values) {
  if (values.empty()) throw std::runtime_error("there is no median of nothing");
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double Way::median() const {
  return bench::median(rounds);
}

double median_ratio(const Way& one, const Way& other) {
  if (one.rounds.size() != other.rounds.size())
    throw std::runtime_error(fmt::format("{} and {} did not take turns", one.name, other.name));
  std::vector<double> ratios;
  for (std::size_t i = 0; i < one.rounds.size(); ++i) ratios.push_back(one.rounds[i] / other.rounds[i]);
  return median(std::move(ratios));
}

std::string figure(double value) {
  const double size = std::abs(value);
  const std::string text = fmt::format("{:.{}f}", value, decimals(size));
  return size >= 1000 ? with_thousands(text) : text;
}

void Distribution::add(const Distribution& other) {
  values_.insert(values_.end(), other.values_.begin(), other.values_.end());
}

std::vector<double> Distribution::sorted() const {
  if (values_.empty()) throw std::runtime_error("nothing was measured");
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

double Distribution::quantile(double share) const {
  return at_share(sorted(), share);
}

Curve Distribution::cumulative(const std::string& name) const {
  const std::vector<double> values = sorted();
  Curve curve{.name = name, .points = {{std::max(values.front(), kLeastDrawn), 0}}};
  for (int i = 1; i <= kPoints; ++i) {
    const double share = static_cast<double>(i) / kPoints;
    curve.points.emplace_back(std::max(at_share(values, share), kLeastDrawn), 100 * share);
  }
  return curve;
}

Distribution Rounds::all() const {
  Distribution together;
  for (const Distribution& round : rounds_) together.add(round);
  return together;
}

Way Rounds::way(double share) const {
  const bool has_comma = name_.find(',') != std::string::npos;
  Way way{fmt::format("{}{} p{:.0f}", name_, has_comma ? "" : ",", 100 * share)};
  for (const Distribution& round : rounds_) way.rounds.push_back(round.quantile(share));
  return way;
}

}  // namespace ff::bench
