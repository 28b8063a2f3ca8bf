#pragma once

#include <optional>
#include <string>

#include "base/time.hpp"

namespace ff::daemon {

/// Tells the service manager something (sd_notify(3): "READY=1", "STATUS=…"), when there is one that listens.
/// A message that cannot be delivered is dropped: nothing of ours depends on it.
void notify_service_manager(const std::string& message);

/// How often the service manager wants to hear WATCHDOG=1 at the latest; nothing: not at all.
std::optional<Milliseconds> watchdog_interval();

/// Microseconds of CLOCK_MONOTONIC, as RELOADING=1 wants them.
std::string monotonic_usec();

}  // namespace ff::daemon
