#pragma once

#include <cstdint>

namespace ff {

/// Gives everything that this thread logs while the scope lives the same id, so that the lines of one tick
/// are found together. The log's formatter asks for it. Scopes do not nest.
class LogScope {
 public:
  explicit LogScope(std::uint64_t id);
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

  /// The id of the scope in this thread, or 0.
  static std::uint64_t current();
};

/// Ids that rise within this process, from 1. Safe from any thread.
std::uint64_t next_log_id();

}  // namespace ff
