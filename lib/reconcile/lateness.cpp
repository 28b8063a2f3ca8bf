#include "reconcile/lateness.hpp"

#include <bit>

namespace ff::reconcile {
namespace {

constexpr int kBitsKept = 7;

std::int64_t rounded(std::int64_t late) {
  if (late < 0) return -1;
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(late)));
  if (bits <= kBitsKept) return late;
  const int dropped = bits - kBitsKept;
  const auto step = std::int64_t{1} << dropped;
  return (late + step - 1) / step * step;
}

}  // namespace

Lateness::Lateness(std::initializer_list<Milliseconds> rows) {
  for (const Milliseconds late : rows) add(late);
}

void Lateness::add(Milliseconds late) {
  ++rows_[Milliseconds{rounded(late.count())}];
  if (late > Milliseconds{0}) sum_ += late;
}

void Lateness::add(const Lateness& other) {
  for (const auto& [late, count] : other.rows_) rows_[late] += count;
  sum_ += other.sum_;
}

std::int64_t Lateness::rows() const {
  std::int64_t all = 0;
  for (const auto& [late, count] : rows_) all += count;
  return all;
}

}  // namespace ff::reconcile
