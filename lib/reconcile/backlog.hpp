#pragma once

#include <cstdint>
#include <optional>

#include "base/time.hpp"

namespace ff::reconcile {

/// How much is due, as far as it was counted.
struct Backlog {
  std::int64_t due = 0;
  bool capped = false;  ///< there may be more than `due`
  std::optional<UnixMillis> oldest_due;
  std::optional<UnixMillis> next_due;  ///< within a day, where a partition's oldest rows show it
  std::optional<UnixMillis>
      known_until;  ///< nothing falls due before but next_due; nothing: not all was read
  UnixMillis database_time{};

  /// That of another pair.
  void add(const Backlog& its);
};

/// The earlier one of the two, as far as there are any.
void keep_earlier(std::optional<UnixMillis>& to, const std::optional<UnixMillis>& from);

}  // namespace ff::reconcile
