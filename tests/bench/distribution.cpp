#include "bench/distribution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ff::bench {
namespace {

constexpr double kLeastDrawn = 0.01;  // a logarithmic axis has no zero
constexpr int kPoints = 200;

double at_share(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

}  // namespace

void Distribution::add(const Distribution& other) {
  values_.insert(values_.end(), other.values_.begin(), other.values_.end());
}

double Distribution::quantile(double share) const {
  if (values_.empty()) throw std::runtime_error("nothing was measured");
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  return at_share(sorted, share);
}

Curve Distribution::cumulative(const std::string& name) const {
  if (values_.empty()) throw std::runtime_error("nothing was measured of " + name);
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  Curve curve{.name = name, .points = {{std::max(sorted.front(), kLeastDrawn), 0}}};
  for (int i = 1; i <= kPoints; ++i) {
    const double share = static_cast<double>(i) / kPoints;
    curve.points.emplace_back(std::max(at_share(sorted, share), kLeastDrawn), 100 * share);
  }
  return curve;
}

std::string in_ms(double ms) {
  return fmt::format("{:.{}f} ms", ms, ms < 10 ? 2 : 1);
}

}  // namespace ff::bench
