#include "faults/soak_verdicts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace ff::faults {
namespace {

using simulation::contradict;
using simulation::Verdict;

constexpr double kMoreMemory = 1.1;
constexpr double kMoreMib = 2;
// An answer to a scrape, and a session or two of a pool that is as full as there is work.
constexpr double kMoreDescriptors = 4;
constexpr double kLater = 1.5;
constexpr double kMostRows = 0.99;

using Samples = std::vector<Sample>;

struct Thirds {
  Samples first;
  Samples last;
};

Thirds thirds(const Samples& samples) {
  const auto warm = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 10);
  const auto third = (samples.end() - warm) / 3;
  return {.first = {warm, warm + third}, .last = {samples.end() - third, samples.end()}};
}

double median(const Samples& samples, const std::function<double(const Held&)>& what) {
  std::vector<double> all;
  for (const Sample& sample : samples) all.push_back(what(sample.held.front()));
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all.at(all.size() / 2);
}

Verdict flat(const Thirds& of, const std::string& question, const std::function<double(const Held&)>& what,
             const std::function<double(double)>& limit) {
  const double then = median(of.first, what);
  const double now = median(of.last, what);
  return {.balanced = then > 0 && now <= limit(then),
          .question = question,
          .numbers = fmt::format("{:.1f} in the first third, {:.1f} in the last", then, now)};
}

}  // namespace

std::vector<Verdict> compare_thirds(const Samples& samples) {
  const Thirds of = thirds(samples);
  const double then = lateness(of.first.front(), of.first.back(), kMostRows);
  const double now = lateness(of.last.front(), of.last.back(), kMostRows);
  return {flat(
              of, "memory is flat, MiB", [](const Held& held) { return held.resident_mib; },
              [](double before) { return std::max(before * kMoreMemory, before + kMoreMib); }),
          flat(
              of, "descriptors are flat", [](const Held& held) { return held.descriptors; },
              [](double before) { return before + kMoreDescriptors; }),
          {.balanced = then > 0 && now <= kLater * then,
           .question = "lateness p99 is flat, s",
           .numbers = fmt::format("{:.3f} in the first third, {:.3f} in the last", then, now)}};
}

Verdict unexplained(const std::map<std::string, double>& errors) {
  Verdict verdict{.question = "no error but those of ended sessions"};
  double explained = 0;
  for (const auto& [what, number] : errors)
    if (what.ends_with(" connection") || what.ends_with(" 57") || what.ends_with(" 08"))
      explained += number;
    else
      contradict(verdict, fmt::format("{}: {:.0f}", what, number));
  verdict.numbers = fmt::format("{:.0f} of ended sessions", explained);
  return verdict;
}

}  // namespace ff::faults
