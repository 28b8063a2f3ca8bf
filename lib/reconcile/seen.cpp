#include "reconcile/seen.hpp"

namespace ff::reconcile {

Seen sort_out(const std::vector<Candidate>& rows, int depth) {
  Seen seen;
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i;
    while (end < rows.size() && rows[end].key.partition == rows[i].key.partition) ++end;
    const bool full = end - i == static_cast<std::size_t>(depth);
    const bool many = i + kScanDepth <= end && rows[i + kScanDepth - 1].due;
    const Candidate& last = rows[end - 1];
    if (rows[i].due) seen.oldest_due_in.emplace(rows[i].key.partition, rows[i].due_at);
    if (many) seen.oldest_of_many.push_back(rows[i]);
    if (full && !last.due && (!seen.cut_off || last.due_at < *seen.cut_off)) seen.cut_off = last.due_at;
    for (; i < end; ++i) {
      if (!rows[i].due)
        seen.coming.push_back(rows[i]);
      else if (!many)
        seen.few.push_back(rows[i]);
    }
  }
  return seen;
}

}  // namespace ff::reconcile
