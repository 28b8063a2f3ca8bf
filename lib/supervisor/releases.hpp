#pragma once

#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "pause/release.hpp"

namespace ff::supervisor {

/// What operators have released, as was last read; while nothing can be read, that stays. Safe from any thread.
class Releases {
 public:
  void learn(std::vector<pause::Release> all) {
    const std::lock_guard lock(mutex_);
    known_ = std::move(all);
  }

  /// Who lets go what the reconciler has held since that moment of the database's clock, if anybody does.
  std::optional<pause::Release> of(std::string_view reconciler, UnixMillis since,
                                   Milliseconds interval) const {
    const std::lock_guard lock(mutex_);
    return pause::releasing(known_, reconciler, since, interval);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<pause::Release> known_;  // guarded by mutex_
};

}  // namespace ff::supervisor
