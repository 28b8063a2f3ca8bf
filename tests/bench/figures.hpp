#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.hpp"

namespace ff::bench {

/// One way of doing what a regime measures, once per round, in the regime's unit. All ways of a regime take turns.
struct Way {
  std::string name;                 ///< "ours", "row by row", "floor", …
  std::vector<double> rounds = {};  ///< at least one, when it is reported
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
  std::vector<std::pair<double, double>> points = {};  ///< x and y, x never decreasing
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
  std::vector<Way> ways = {};
  std::vector<Goal> goals = {};
  std::vector<std::string> remarks = {};  ///< what a reader has to know to judge the figures
  Plot plot = {};
};

/// Does each once a round. Each round begins with another: what one leaves in caches is not always the same one's gain.
void take_turns(int rounds, const std::vector<std::function<void()>>& turns);

double seconds_since(SteadyTime start);
double seconds_taken(const std::function<void()>& work);

/// Of at least one value; of an even number the mean of the middle two.
double median(std::vector<double> values);

/// The median over the rounds of what `one` reached in a round, divided by what `other` reached in the same.
/// Both have as many rounds.
double median_ratio(const Way& one, const Way& other);

/// A figure for people, in three or four digits: "0.0131", "1.25", "48.1", "1,532"; a whole number as it is.
std::string figure(double value);

/// Measured values of one kind, in milliseconds, in any order.
class Distribution {
 public:
  void add(double ms) { values_.push_back(ms); }
  void add(const Distribution& other);

  std::size_t size() const { return values_.size(); }
  /// The value that a share of `share` (0 to 1) does not exceed. Throws std::runtime_error when there is
  /// none.
  double quantile(double share) const;

  /// For a logarithmic axis in ms: how many percent of the values are at most that.
  Curve cumulative(const std::string& name) const;

 private:
  std::vector<double> sorted() const;

  std::vector<double> values_;
};

/// The values of one way, round by round.
class Rounds {
 public:
  explicit Rounds(std::string name) : name_(std::move(name)) {}

  void add(const Distribution& round) { rounds_.push_back(round); }
  Distribution all() const;
  /// Each round's quantile, named after it: "ours, p99", "ours, claim p99".
  Way way(double share) const;
  /// Of all rounds together.
  Curve curve() const { return all().cumulative(name_); }

 private:
  std::string name_;
  std::vector<Distribution> rounds_;
};

}  // namespace ff::bench
