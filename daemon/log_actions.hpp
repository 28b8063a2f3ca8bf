#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reconcile/action.hpp"

namespace spdlog {
class logger;
}

namespace ff::daemon {

/// The name of its logger, by which the formatter of JSON logs knows lines that are JSON already.
inline constexpr const char* kActionLog = "action";

/// Writes a line to the log for each execution that was ended and each row that was deleted, whatever the log's level:
/// a JSON object with what happened, why, and who did it. Safe from any thread.
class ActionLog {
 public:
  /// To where the log goes now: set_up_log() comes first.
  explicit ActionLog(bool on);

  void turn(bool on) { on_ = on; }

  /// For TickOptions::tell, of a tick of the calling thread, whose id its lines have. Empty while it is off.
  std::function<void(const std::vector<reconcile::Action>&)> teller();

 private:
  void write(const reconcile::Action& action, std::uint64_t tick) const;

  std::atomic<bool> on_;
  const std::string host_;
  const std::shared_ptr<spdlog::logger> log_;
};

}  // namespace ff::daemon
