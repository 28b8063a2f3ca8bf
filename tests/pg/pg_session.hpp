#pragma once

/// What the tests of a session and of its transactions ask in the same words.

#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "pg/connection.hpp"
#include "support/database.hpp"
#include "support/engine.hpp"

namespace ff::test {

using namespace std::chrono_literals;

inline std::int32_t pid_of(pg::Connection& connection) {
  return connection.execute("SELECT pg_backend_pid()").one().get<std::int32_t>(0);
}

/// Until the server shows that many sessions in the middle of this statement.
inline void await_running(pg::Connection& db, const std::string& statement, int sessions) {
  while (number(db,
                "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = $1"
                " AND pid <> pg_backend_pid()",
                pg::Params::of(statement)) != sessions)
    std::this_thread::yield();
}

inline pg::Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const pg::Error& error) {
    return error;
  }
  throw std::logic_error("nothing was thrown");
}

/// Whether `action` comes to its end within a time that is far from that of what it interrupts.
inline bool is_prompt(const std::function<void()>& action) {
  const auto started = Clock::system().now();
  action();
  return Clock::system().now() - started < 5s;
}

}  // namespace ff::test
