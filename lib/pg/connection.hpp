#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "pg/error.hpp"
#include "pg/interrupt.hpp"
#include "pg/params.hpp"
#include "pg/result.hpp"
#include "pg/statement_cache.hpp"

struct pg_conn;  // libpq's PGconn

namespace ff::pg {

/// How the server plans a statement.
enum class Plan {
  custom,  ///< anew, for the values of this call
  generic  ///< for any values: once, where the connection has a place for one more prepared statement
};

/// One statement with its values, of several that are sent together.
struct Call {
  std::string sql;
  Params params = {};
  Plan plan = Plan::custom;
  /// The same statement, right for these values only and far cheaper to plan: sent in place of `sql` while the session has no
  /// plan of that, and has not been asked for one often enough for it to pay. Empty: there is none.
  std::string narrower = {};
};

/// One session with a server. Every wait ends at an absolute deadline or when the interrupt is raised; a
/// connection on which a wait ended early is closed, because its state is unknown. Movable; one thread at a
/// time.
///
/// Where the Connector was told of a relation, no schema but pg_catalog is on the search_path of any statement: others
/// may be allowed to create functions and operators in another, and one that fits the types better would run with our
/// rights. Tables are named with the schema of that relation, which stands in a statement as `{schema}.`, and in what
/// is looked up by name as `{schema_text}`, a literal.
class Connection {
 public:
  Connection(Connection&&) noexcept;
  Connection& operator=(Connection&&) noexcept;
  ~Connection();

  /// Runs these statements one after the other in one round trip (libpq's pipeline mode) and returns the rows of each.
  /// Outside a Transaction they are one of their own. The first that fails ends it: those behind it are not run. Throws
  /// Error.
  ///
  /// Behind a pooler that hands the session to others, prepared statements get lost or clash: the error is retryable(),
  /// and this connection then goes on without.
  std::vector<Result> execute_all(std::vector<Call> calls, SteadyTime deadline);
  /// One of them.
  Result execute(std::string_view sql, const Params& params, SteadyTime deadline);
  /// The same with a deadline of the connection's own statement timeout from now.
  Result execute(std::string_view sql, const Params& params = {});
  Result execute_prepared(std::string_view sql, const Params& params);

  /// How many statements the server keeps prepared for this connection, and whether this is one of them.
  std::size_t prepared() const { return prepared_.size(); }
  bool has_prepared(std::string_view sql) const;
  /// No further statement is prepared without giving back another (see StatementCache). A plan over a group of partitions
  /// takes up to 3 MB of the server's memory.
  static constexpr std::size_t kMostPrepared = 96;
  /// From which time on a statement is worth a plan of its own that has a `narrower` one: to plan it over sixteen partitions
  /// costs about as much as to plan and run it eight times over one.
  static constexpr int kWorthAPlan = 8;

  /// Runs several statements separated by semicolons, without parameters (the simple query protocol: outside
  /// a transaction block they are one transaction), with the search_path that the session has at the moment. Returns the
  /// last statement's rows.
  Result execute_script(const std::string& sql, SteadyTime deadline);
  Result execute_script(const std::string& sql);

  /// No statement is waited for beyond this, until it is called again: for many that have so long together. Nothing: each
  /// has its own time.
  void end_all_by(std::optional<SteadyTime> deadline) { all_end_by_ = deadline; }
  /// The longest that one statement is waited for: a little more than the server's statement timeout.
  SteadyTime default_deadline() const;
  Milliseconds statement_timeout() const { return statement_timeout_; }

  bool lost() const;
  /// Outside any transaction and not lost: fit to be handed to the next user.
  bool idle() const;
  void close();

  /// A pooler is in between, which goes on with a session of the server's when this one is closed.
  bool behind_pooler() const { return !may_prepare_; }

  /// Where it is connected to ("host:port/database as user"), for people.
  std::string description() const;
  /// Which server that is, for people: "host:port", and its address where a name stands for it.
  std::string server() const;
  /// When it was started, as it said when the session began; the same as ServerInfo has. Nothing: not of a Connector.
  std::optional<UnixMillis> server_started_at() const { return server_started_at_; }

  /// Ends a connection of libpq's.
  struct Finish {
    void operator()(pg_conn* connection) const;
  };

 private:
  friend class Connector;
  friend class Listener;
  friend class Pool;
  friend class Transaction;

  Connection(pg_conn* owned, Milliseconds statement_timeout, const Interrupt* interrupt);

  /// What runs before the next statement, in the same round trip: so a transaction begins with its first statement.
  struct Opening {
    std::string_view begin;
    std::string_view settings;
    Params values;
  };

  pg_conn* usable(std::string_view sql);
  Milliseconds timeout_until(SteadyTime deadline) const;
  std::string located(std::string_view sql) const;
  std::vector<Result> exchange(std::span<const Call> calls, SteadyTime deadline);
  std::string send(const Call& call);
  std::optional<Result> next_result(std::string_view sql, SteadyTime deadline);
  std::optional<Result> receive(std::string_view sql, SteadyTime deadline, std::optional<Error>& error);
  void keep_first(const pg_result* result, std::string_view sql, std::optional<Error>& error);
  void await_sync(std::string_view sql, SteadyTime deadline, std::optional<Error>& error);
  void give_back_surplus();
  Result collect(std::string_view sql, SteadyTime deadline);
  /// Waits until the socket is readable (or writable), the deadline or the interrupt; throws for the latter
  /// two.
  void wait(bool for_write, SteadyTime deadline, std::string_view sql);
  void flush(SteadyTime deadline, std::string_view sql);
  void cancel();
  [[noreturn]] void fail(Error::Kind kind, std::string_view sql);

  std::unique_ptr<pg_conn, Finish> connection_;
  StatementCache prepared_{kMostPrepared};
  std::optional<Opening> opening_;
  struct Schema {
    std::string prefix;  // quoted, with its dot
    std::string text = "''";
  };
  Schema schema_;
  bool catalog_only_ = false;  // on the search_path
  bool may_prepare_ = true;
  std::optional<UnixMillis> server_started_at_;
  std::optional<SteadyTime> all_end_by_;
  Milliseconds statement_timeout_;
  const Interrupt* interrupt_;
  std::shared_ptr<const Interrupt> abandoned_;  // raised by the Pool that it is of; null: of none
};

}  // namespace ff::pg
