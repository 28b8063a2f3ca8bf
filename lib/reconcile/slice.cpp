#include "reconcile/slice.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace ff::reconcile {

Slice::Place Slice::before_all() {
  return {{-1}, Uuid{}};
}

Slice::Place Slice::after_all() {
  Uuid last;
  std::fill(last.begin(), last.end(), std::uint8_t{0xff});
  return {{std::numeric_limits<std::int16_t>::max()}, last};
}

Slice Slice::nothing() {
  return {after_all(), before_all()};
}

void Slice::add_to(pg::Params& params) const {
  for (const Place* place : {&after, &up_to}) params.add(place->partition).add(place->key);
}

Partitions Slice::partitions_of(const Partitions& all) const {
  Partitions some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some), [&](PartitionKey partition) {
    return after.partition <= partition && partition <= up_to.partition;
  });
  return some;
}

}  // namespace ff::reconcile
