#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>

#include "base/time.hpp"

namespace ff::reconcile {

/// How late rows were: how many rows by how much. To the millisecond below 128 ms, above that rounded up by less
/// than a sixty-fourth; so a million rows take no more room than some thousands. Whoever seems early, because a clock
/// was set, counts as -1 ms.
class Lateness {
 public:
  Lateness() = default;
  Lateness(std::initializer_list<Milliseconds> rows);

  void add(Milliseconds late);
  void add(const Lateness& other);

  bool empty() const { return rows_.empty(); }
  std::int64_t rows() const;
  const std::map<Milliseconds, std::int64_t>& rows_by_lateness() const { return rows_; }
  /// Of all rows that were not early, not rounded.
  Milliseconds sum() const { return sum_; }
  /// The largest; there must be one.
  Milliseconds worst() const { return rows_.rbegin()->first; }

  friend bool operator==(const Lateness&, const Lateness&) = default;

 private:
  std::map<Milliseconds, std::int64_t> rows_;
  Milliseconds sum_{0};
};

}  // namespace ff::reconcile
