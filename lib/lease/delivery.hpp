#pragma once

#include <exception>
#include <string>
#include <variant>

#include "lease/event.hpp"

namespace ff::lease {

/// The session with the server was lost. The reader makes a new one and goes on behind this cursor by itself,
/// without gap or repeat; the notice is for consumers that want to know how fresh they are.
struct StreamDisconnected {
  Cursor cursor;
  std::exception_ptr reason;  ///< a pg::Error, or another std::exception
};

/// Everything that had been committed when the subscription was made has been delivered, or filtered out.
/// Comes once.
struct CaughtUp {
  Cursor cursor;
};

/// The cursor cannot be of this database: it lies so far beyond every id that was handed out that no failover explains
/// it. Comes once, and nothing else does.
struct CursorRefused {
  std::string reason;
};

using Delivery = std::variant<Event, StreamDisconnected, CaughtUp, CursorRefused>;

}  // namespace ff::lease
