#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "pg/connection.hpp"
#include "pg/interrupt.hpp"

namespace ff::pg {

/// How to reach the database.
struct ConnectOptions {
  /// A URL (postgresql://…) or a keyword string; empty: libpq's environment (PGHOST, …) and defaults.
  std::string conninfo = {};
  /// Overrides the password in `conninfo`.
  std::string password = {};
  /// Overrides both; read anew for every connection, one trailing newline stripped.
  std::string password_file = {};
  std::string application_name = "ff-reconcilerd";
  /// For each host by itself.
  Milliseconds connect_timeout{3000};
  /// The server's limit for one statement, set inside each transaction; our own deadline for an answer is a
  /// little longer, so that normally the server is the one to say so.
  Milliseconds statement_timeout{30000};
};

/// Makes connections to the first host that accepts writes, starting with the one that did last. Several
/// hosts are tried one by one with a deadline each, because libpq's own rotation has none (PQconnectPoll
/// ignores connect_timeout). Safe from any thread.
class Connector {
 public:
  /// Throws std::invalid_argument, without any password in its message, when the conninfo cannot be parsed.
  explicit Connector(ConnectOptions options);

  /// Throws Error: not_writable when a server was reached but none that accepts writes, connection otherwise;
  /// the message has one clause per host.
  Connection connect(SteadyTime deadline, const Interrupt* interrupt = nullptr) const;

  const ConnectOptions& options() const { return options_; }
  /// Where it connects, for people: hosts, ports, database and user, no password in any form.
  std::string description() const;

 private:
  using Parameters = std::vector<std::pair<std::string, std::string>>;  // libpq's keywords and values
  Connection connect_one(const Parameters& host, SteadyTime deadline, const Interrupt* interrupt) const;

  ConnectOptions options_;
  std::vector<Parameters> hosts_;  // one entry per host, never empty
  // As target_session_attrs asks: `primary` also takes a server with default_transaction_read_only=on, which
  // `read-write` (our default) refuses; any other word means that the caller wants no such check.
  bool accept_default_read_only_ = false;
  bool accept_read_only_ = false;
  mutable std::atomic<std::size_t> preferred_{0};
};

}  // namespace ff::pg
