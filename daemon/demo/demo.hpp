#pragma once

#include "arguments.hpp"

namespace ff::daemon {

/// The whole system on a PostgreSQL of its own, or on the empty database that `--database-url` names: simulated workers
/// beside the daemon itself, until the time is over or a signal comes, and then a check of the books. Returns the exit
/// code. To be called on the main thread.
int run_demo(const Arguments& arguments);

}  // namespace ff::daemon
