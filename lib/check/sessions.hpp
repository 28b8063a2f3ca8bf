#pragma once

#include <optional>
#include <string>

#include "base/time.hpp"
#include "check/line.hpp"
#include "pg/connection.hpp"
#include "pg/listener.hpp"

/// Who else is on the server. Each function reads only and throws pg::Error.
namespace ff::check {

/// locked_tables: that nobody keeps everybody else from reading or writing a table of FlowFabric's, as DDL and LOCK TABLE
/// do. Reads none of them, and so waits for nobody.
Lines locked_tables(pg::Connection& connection);

/// A table in which workers renew their leases, or say that they live, and which somebody keeps all others from writing, or is
/// about to: whoever comes after one that waits for its lock waits as well.
struct LockedTable {
  std::string name;
  bool all = false;  ///< of it, not some of its hash children
};
/// One of them, of which all is locked if there is one. Reads none of them, and so waits for nobody.
std::optional<LockedTable> locked_to_workers(pg::Connection& connection);

/// long_transactions: sessions on this database whose transaction is older, and prepared transactions.
Lines long_transactions(pg::Connection& connection, Milliseconds older_than);

/// oldest_snapshot: that nobody holds back what VACUUM may remove by more transactions than these.
Lines oldest_snapshot(pg::Connection& connection, std::int64_t more_than);

/// listen: whether a notification of our own, sent by another session, comes back. It is the only thing here that the
/// server is told, on a channel that nobody else has. Where a pooler is in between, which keeps a session for each of a daemon's:
/// that it needs so many `sessions`.
Lines notifications(pg::Listener& listener, pg::Connection& other, Milliseconds at_most, int sessions);

}  // namespace ff::check
