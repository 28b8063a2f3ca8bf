#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ff::bench {

/// One way of doing what a regime measures, once per round, in the regime's unit. All ways of a regime take turns.
struct Way {
  std::string name;            ///< "ours", "row by row", "floor", …
  std::vector<double> rounds;  ///< at least one
  double median() const;
};

/// A figure that was wanted, and what was reached: the median over the rounds of whatever it compares.
struct Goal {
  std::string wanted;   ///< in words: "at least 25 times row by row"
  std::string reached;  ///< in words: "19.1 times"
  bool met = false;
};

/// A line of a plot.
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< x and y, x never decreasing
};

/// How the regime's plot looks: bars of the ways' medians where there are no curves.
struct Plot {
  std::string x;  ///< what the axis shows, with its unit; unused for bars
  std::string y;
  bool logarithmic_x = false;
  bool logarithmic_y = false;
  std::vector<Curve> curves = {};
};

/// What was measured in one regime.
struct Regime {
  std::string name;   ///< a word for file names, such as "dense" or "dense_1ms"
  std::string title;  ///< one sentence: how much of what, over how many connections
  std::string unit;   ///< of the ways' figures: "rows/s", "ms", "% of a core", "MiB"
  std::vector<Way> ways;
  std::vector<Goal> goals = {};
  std::vector<std::string> remarks = {};  ///< what a reader has to know to judge the figures
  Plot plot = {};
};

}  // namespace ff::bench
