#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/time.hpp"

namespace ff::reconcile {

/// One token for each row that may be given back to the workers: so many a second, and what was not taken of the last
/// two seconds. Who goes short leaves something to the others who do, so that a reconciler with one row does not wait
/// behind one with a hundred thousand. A pure function of time, which comes in as a parameter. Not thread-safe.
class TokenBucket {
 public:
  static constexpr Milliseconds kDepth{2000};
  /// So long after its last try whoever went short is still waited for.
  static constexpr Milliseconds kStillWants{2000};

  /// Begins full.
  explicit TokenBucket(double tokens_a_second) : rate_(tokens_a_second), tokens_(tokens_a_second * 2.0) {}

  double rate() const { return rate_; }
  /// What is in it stays, as far as the new depth allows.
  void set_rate(double tokens_a_second, SteadyTime now);

  /// Up to `wanted` tokens, as many as there are for this one.
  std::int64_t take(std::string_view who, std::int64_t wanted, SteadyTime now);
  /// Tokens that were taken and not needed.
  void put_back(std::int64_t tokens, SteadyTime now);

  /// How long until there will be so many, if nobody else takes any.
  Milliseconds until(double tokens, SteadyTime now) const;
  /// Somebody has gone short within the last two seconds.
  bool is_short(SteadyTime now) const;

 private:
  void fill(SteadyTime now);
  double depth() const { return rate_ * std::chrono::duration<double>(kDepth).count(); }
  double at(SteadyTime now) const;

  double rate_;
  double tokens_;
  SteadyTime filled_at_{};
  std::map<std::string, SteadyTime, std::less<>> short_since_;  // who went short, and when they last did
};

}  // namespace ff::reconcile
