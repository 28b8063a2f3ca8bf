#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench.hpp"
#include "bench/stock.hpp"

namespace ff::bench {

/// Passes over one lapsed lease in each partition.
class SparsePasses {
 public:
  explicit SparsePasses(const Bench& bench);

  /// So many of each, in turns, in milliseconds; each finds new leases, and has to move them. One more before that does not
  /// count: what is measured is a program that has been running for a while and has planned its statements.
  std::vector<Way> measure(const std::vector<std::pair<std::string, std::function<void()>>>& works,
                           int passes);

 private:
  pg::Connection keeper_;
  Stock stock_;
  std::int64_t moved_ = 0;
};

}  // namespace ff::bench
