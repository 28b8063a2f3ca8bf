#pragma once

#include <string_view>

#include "base/time.hpp"
#include "pg/error.hpp"
#include "pg/interrupt.hpp"

namespace ff::pg {

/// What whoever abandons sessions has found; how an Error begins that says so.
inline constexpr std::string_view kAbandoned = "the server stands still, or is another now: ";

/// Waits until `fd` is readable (or, with `for_write`, readable or writable). Throws Error of kind timeout at
/// the deadline, of kind interrupted when `interrupt` is raised, and of kind connection when `abandoned` is (each may be
/// null); `what` says in the message for what it waited.
void wait_for(int fd, bool for_write, SteadyTime deadline, const Interrupt* interrupt, std::string_view what,
              const Interrupt* abandoned = nullptr);

}  // namespace ff::pg
