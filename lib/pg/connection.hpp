#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.hpp"
#include "pg/error.hpp"
#include "pg/interrupt.hpp"
#include "pg/params.hpp"
#include "pg/result.hpp"

struct pg_conn;  // libpq's PGconn

namespace ff::pg {

/// How the server plans a statement.
enum class Plan {
  fresh,  ///< for its values, each time: best where they choose one hash child out of many
  reused  ///< once per connection, for any values: best where planning over all hash children would cost more
          ///< than running
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

  /// Runs one statement with parameters and returns its rows. Outside a Transaction it has one of its own. Throws Error.
  Result execute(std::string_view sql, const Params& params, SteadyTime deadline);
  /// The same with a deadline of the connection's own statement timeout from now.
  Result execute(std::string_view sql, const Params& params = {});

  /// The same through a statement that this connection prepares when it first meets it. Behind a pooler that
  /// hands the session to others, prepared statements get lost or clash: the error is retryable(), and this
  /// connection then goes on without.
  Result execute_prepared(std::string_view sql, const Params& params);
  /// Gives back what the server keeps for a prepared statement; nothing where there is none. Throws Error.
  void forget(std::string_view sql);
  /// False once that has failed: a pooler that keeps prepared statements gives them names of its own.
  bool gives_back() const { return gives_back_; }
  bool has_prepared(std::string_view sql) const { return prepared_.find(sql) != prepared_.end(); }

  /// Runs several statements separated by semicolons, without parameters (the simple query protocol: outside
  /// a transaction block they are one transaction), with the search_path that the session has at the moment. Returns the
  /// last statement's rows.
  Result execute_script(const std::string& sql, SteadyTime deadline);
  Result execute_script(const std::string& sql);

  /// The longest that one statement is waited for: a little more than the server's statement timeout.
  SteadyTime default_deadline() const;
  Milliseconds statement_timeout() const { return statement_timeout_; }

  bool lost() const;
  /// Outside any transaction block and not lost: fit to be handed to the next user.
  bool idle() const;
  void close();

  /// Where it is connected to ("host:port/database as user"), for people.
  std::string description() const;

 private:
  friend class Connector;
  friend class Listener;
  friend class Transaction;
  struct Finish {
    void operator()(pg_conn* connection) const;
  };

  Connection(pg_conn* owned, Milliseconds statement_timeout, const Interrupt* interrupt);

  pg_conn* usable(std::string_view sql);
  std::string located(std::string_view sql) const;
  Result execute_alone(std::string_view sql, const Params& params, SteadyTime deadline);
  const std::string& prepare(std::string_view sql, const Params& params);
  Result collect(std::string_view sql, SteadyTime deadline);
  /// Waits until the socket is readable (or writable), the deadline or the interrupt; throws for the latter
  /// two.
  void wait(bool for_write, SteadyTime deadline, std::string_view sql);
  void flush(SteadyTime deadline, std::string_view sql);
  void cancel();
  [[noreturn]] void fail(Error::Kind kind, std::string_view sql);

  std::unique_ptr<pg_conn, Finish> connection_;
  std::map<std::string, std::string, std::less<>> prepared_;  // statement text -> its name in this session
  struct Schema {
    std::string prefix;  // quoted, with its dot
    std::string text = "''";
  };
  Schema schema_;
  bool catalog_only_ = false;  // on the search_path
  bool may_prepare_ = true;
  bool gives_back_ = true;
  Milliseconds statement_timeout_;
  const Interrupt* interrupt_;
};

}  // namespace ff::pg
