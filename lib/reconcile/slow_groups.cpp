#include "reconcile/slow_groups.hpp"

#include <algorithm>

namespace ff::reconcile {
namespace {

constexpr Milliseconds kFirstRest{60'000};
constexpr Milliseconds kMostRest{600'000};

}  // namespace

void SlowGroups::gave_up(std::size_t group, SteadyTime now, const pg::Error& error) {
  const auto before = groups_.find(group);
  const Milliseconds rest =
      before == groups_.end() ? kFirstRest : std::min(2 * before->second.rest, kMostRest);
  groups_.insert_or_assign(group, Entry{rest, now + rest, error});
}

const pg::Error* SlowGroups::leave_out(std::vector<GroupSlice>& slices, SteadyTime now) const {
  const auto is_read = [&](const GroupSlice& slice) {
    const auto found = groups_.find(slice.group);
    return found == groups_.end() || found->second.until <= now;
  };
  const auto resting = std::stable_partition(slices.begin(), slices.end(), is_read);
  if (resting == slices.end()) return nullptr;
  const pg::Error* const why = &groups_.at(resting->group).error;
  if (resting == slices.begin()) {
    const auto next = std::ranges::min_element(
        slices, {}, [&](const GroupSlice& slice) { return groups_.at(slice.group).until; });
    slices = {*next};
  } else {
    slices.erase(resting, slices.end());
  }
  return why;
}

}  // namespace ff::reconcile
