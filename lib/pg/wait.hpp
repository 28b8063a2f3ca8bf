#pragma once

#include <string_view>

#include "base/time.hpp"
#include "pg/error.hpp"
#include "pg/interrupt.hpp"

namespace ff::pg {

/// Waits until `fd` is readable (or, with `for_write`, readable or writable). Throws Error of kind timeout at
/// the deadline and of kind interrupted when `interrupt` (may be null) is raised; `what` says in the message
/// for what it waited.
void wait_for(int fd, bool for_write, SteadyTime deadline, const Interrupt* interrupt, std::string_view what);

}  // namespace ff::pg
