#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "reconcile/candidate.hpp"

namespace ff::reconcile {

/// A partition that shows this many due rows in a scan is paged through; the others show all that is due there
/// and, behind it, what falls due next.
constexpr int kScanDepth = 4;

/// What a scan has shown.
struct Seen {
  std::vector<Candidate> few;                        ///< all due rows of the partitions that have few
  std::vector<Candidate> oldest_of_many;             ///< the oldest row of each partition that may have more
  std::vector<Candidate> coming;                     ///< rows that are not due yet
  std::optional<UnixMillis> cut_off;                 ///< there may be more rows coming behind this due time
  std::map<PartitionKey, UnixMillis> oldest_due_in;  ///< of each partition with a due row
};

/// Of the rows of a scan, at most `depth` of each partition, those of one together and the oldest first.
Seen sort_out(const std::vector<Candidate>& rows, int depth = kScanDepth);

}  // namespace ff::reconcile
