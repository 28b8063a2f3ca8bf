#include "support/deadlocks.hpp"

#include <stdexcept>

#include "support/engine.hpp"
#include "support/process.hpp"

namespace ff::test {
namespace {

constexpr const char* kOtherTransactions =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND backend_type = 'client backend'";
constexpr const char* kDeadlocks =
    "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";

}  // namespace

std::int64_t deadlocks(pg::Connection& connection) {
  if (!wait_until([&] { return number(connection, kOtherTransactions) == 0; }))
    throw std::runtime_error("sessions that may have met a deadlock are still open");
  return number(connection, kDeadlocks);
}

}  // namespace ff::test
