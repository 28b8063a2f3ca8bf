#pragma once

#include "config/config.hpp"

namespace ff::daemon {

/// Sends everything that is logged to stderr: text for people or one JSON object a line for machines. Under
/// journald (stderr is what JOURNAL_STREAM names) text lines carry the priority instead of a time, which the journal has
/// already. Lines of one tick share a `tick` id.
void set_up_log(const config::Log& log);

/// May be called at any time.
void set_log_level(config::LogLevel level);

}  // namespace ff::daemon
