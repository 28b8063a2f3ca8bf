#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "pg/connection.hpp"
#include "pg/conninfo.hpp"
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
  /// A relation by which each session finds, once, the schema of its tables (see Connection): where the session's own
  /// search_path has it, or would make it. Empty: it looks for none.
  std::string relation = {};
  /// The longest for each address of each host; see Connector for those that did not answer before.
  Milliseconds connect_timeout{3000};
  /// The server's limit for one statement, set inside each transaction; our own deadline for an answer is a
  /// little longer, so that normally the server is the one to say so.
  Milliseconds statement_timeout{30000};
};

/// Makes connections to the first host that accepts writes, starting with the one that did last. Hosts, and the
/// addresses of each, are tried one by one, each with its share of the time that is left, because libpq's own
/// rotation has no deadline (PQconnectPoll ignores connect_timeout). One that did not answer in time comes last from
/// then on, and has a third of connect_timeout wherever another answers, but for once in 15 s. Safe from any thread.
///
/// Behind a pooler nothing is prepared, because it may hand the session to others between two transactions; one that
/// does so between two statements is refused.
class Connector {
 public:
  /// Throws std::invalid_argument as parse_conninfo does.
  explicit Connector(ConnectOptions options);

  /// Throws Error: not_writable when a server was reached but none that accepts writes, connection otherwise;
  /// the message has one clause per address that was tried. Looking up a name has no deadline but the
  /// resolver's own.
  Connection connect(SteadyTime deadline, const Interrupt* interrupt = nullptr) const;

  const ConnectOptions& options() const { return options_; }
  /// Whether a server that takes no writes will do: target_session_attrs says so.
  bool takes_read_only() const { return accept_read_only_; }
  /// Where it connects, for people: hosts, ports, database and user, no password in any form.
  const std::string& description() const { return description_; }

 private:
  /// One address of a host.
  struct Place {
    std::size_t number;
    Keywords server;
    std::string name;
    SteadyTime dark_until{};  ///< it did not answer; else never
  };
  std::vector<Place> places_in_turn() const;
  void no_longer_dark(const Place& place) const;
  void stayed_dark(const Place& place) const;

  void get_to_know(Connection& connection, SteadyTime deadline) const;
  Connection connect_one(const Keywords& place, SteadyTime deadline, const Interrupt* interrupt) const;

  ConnectOptions options_;
  std::vector<Keywords> servers_;
  std::string description_;
  // As target_session_attrs asks: `primary` also takes a server with default_transaction_read_only=on, which
  // `read-write` (our default) refuses; any other word means that the caller wants no such check.
  bool accept_default_read_only_ = false;
  bool accept_read_only_ = false;
  mutable std::atomic<std::size_t> next_{0};  // where the next attempt begins
  mutable std::mutex mutex_;
  mutable std::map<std::string, SteadyTime>
      dark_;  // guarded by mutex_: the names of places that did not answer
};

}  // namespace ff::pg
