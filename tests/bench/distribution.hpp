#pragma once

#include <string>
#include <vector>

#include "bench/regime.hpp"

namespace ff::bench {

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
  std::vector<double> values_;
};

/// "12.3 ms", with two digits after the point below 10.
std::string in_ms(double ms);

}  // namespace ff::bench
