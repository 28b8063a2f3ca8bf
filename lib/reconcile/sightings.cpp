#include "reconcile/sightings.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string>

namespace ff::reconcile {
namespace {

constexpr std::uint64_t kEpoch = std::uint64_t{1} << 32;

}  // namespace

bool Sightings::Snapshot::knows(std::uint64_t transaction) const {
  return transaction < next && !std::ranges::binary_search(active, transaction);
}

// "xmin:xmax:xip,xip", see pg_snapshot.
Sightings::Snapshot Sightings::read(UnixMillis at, std::string_view text) {
  std::vector<std::uint64_t> numbers;
  const char* from = text.data();
  const char* const end = from + text.size();
  while (from < end) {
    std::uint64_t number = 0;
    const auto [behind, error] = std::from_chars(from, end, number);
    if (error != std::errc{}) break;
    numbers.push_back(number);
    from = behind < end ? behind + 1 : behind;
  }
  if (from < end && *from != ':') numbers.clear();
  if (numbers.size() < 2) throw std::runtime_error("\"" + std::string(text) + "\" is no snapshot");
  Snapshot snapshot{at, numbers[1], {numbers.begin() + 2, numbers.end()}};
  std::ranges::sort(snapshot.active);
  return snapshot;
}

void Sightings::note(UnixMillis now, std::string_view snapshot, std::int64_t server) {
  Snapshot next = read(now, snapshot);
  // Its clock may have been set back, too.
  if (server != server_ || (!all_.empty() && (next.next < all_.back().next || now < all_.back().at)))
    all_.clear();
  server_ = server;
  all_.push_back(std::move(next));
  if (all_.size() > kMost) thin_out();
}

// Every other one of the older half.
void Sightings::thin_out() {
  std::deque<Snapshot> kept;
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (i % 2 == 0 || i >= all_.size() / 2) kept.push_back(std::move(all_[i]));
  all_.swap(kept);
}

Sightings::When Sightings::written(std::uint32_t xmin) const {
  const Snapshot& last = all_.back();
  std::uint64_t transaction = last.next - last.next % kEpoch + xmin;
  // Rows keep the lower half of the number: it is the one nearest to the snapshot's, which may have begun since.
  if (transaction > last.next + kEpoch / 2 && transaction >= kEpoch)
    transaction -= kEpoch;
  else if (transaction + kEpoch / 2 < last.next)
    transaction += kEpoch;
  const auto first = std::ranges::partition_point(
      all_, [&](const Snapshot& snapshot) { return !snapshot.knows(transaction); });
  if (first == all_.end()) return {last.at, last.at};
  return {first == all_.begin() ? first->at : (first - 1)->at, first->at};
}

}  // namespace ff::reconcile
