#pragma once

#include <optional>
#include <string>

#include "base/time.hpp"

namespace ff::daemon {

/// Tells the service manager something (sd_notify(3): "READY=1", "STATUS=…"), when there is one that listens.
/// False: it could not be delivered and is dropped, and the log says so, once until another is delivered. Where whoever
/// listens has no room for it, some is waited for so long; signals are not heard meanwhile.
bool notify_service_manager(const std::string& message, Milliseconds wait = Milliseconds{0});

/// The wait for what is said only once.
constexpr Milliseconds kWaitToBeHeard{100};

/// How often the service manager wants to hear WATCHDOG=1 at the latest; nothing: not at all.
std::optional<Milliseconds> watchdog_interval();

/// Microseconds of CLOCK_MONOTONIC, as RELOADING=1 wants them.
std::string monotonic_usec();

}  // namespace ff::daemon
