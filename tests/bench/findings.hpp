#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/figures.hpp"

namespace ff::bench {

/// What a measurement has found in one regime. What that is in words, what is wanted of it and what a reader has to know
/// to judge it stands in regimes.yaml, which names what is found here.
struct Findings {
  std::string regime;  ///< a word for file names, such as "dense" or "dense_1ms"
  std::vector<Way> ways = {};
  std::map<std::string, double> numbers = {};
  std::map<std::string, std::string> words = {};
  std::vector<Curve> curves = {};
  std::string described_as = {};  ///< the name in regimes.yaml where many regimes share one

  /// Of each round these quantiles, as ways, and of all rounds together a curve.
  void add(const Rounds& rounds, const std::vector<double>& shares = {0.5, 0.99});
};

/// So that what is wrong with all of regimes.yaml is found before anything is measured. Throws std::runtime_error.
void read_descriptions();

/// The regime with its description filled in. Throws std::runtime_error for one that is not described, or whose description
/// names what was not found.
Regime described(Findings findings);

}  // namespace ff::bench
