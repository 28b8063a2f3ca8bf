#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ff::pg {

/// Whatever went wrong between us and PostgreSQL. It answers the questions that a caller has to decide by;
/// nobody outside lib/pg compares SQLSTATEs (the codes: PostgreSQL documentation, appendix A).
class Error : public std::runtime_error {
 public:
  enum class Kind {
    server,          ///< the server answered with a SQLSTATE, and the session goes on
    connection,      ///< no connection could be made, or it broke, or the server ended the session
    timeout,         ///< our own deadline passed: for a connection from the pool, or for an answer
    interrupted,     ///< an Interrupt was raised while waiting
    not_writable,    ///< servers were reached, but none that accepts writes
    unknown_commit,  ///< the connection broke while COMMIT was under way: it may or may not have happened
    internal         ///< not the database is at fault but we ourselves
  };

  /// `has_context`: the server says within what it was raised, as it does where a function raises the code of its choice.
  Error(Kind kind, const std::string& message, std::string sqlstate = {}, std::string query = {},
        bool has_context = false);

  Kind kind() const { return kind_; }
  /// Five characters, or empty where the server did not answer.
  const std::string& sqlstate() const { return sqlstate_; }
  /// The text of the statement, or empty.
  const std::string& query() const { return query_; }

  /// The connection is of no further use.
  bool connection_lost() const;
  /// The transaction was the victim of a conflict (serialization failure, deadlock): the same again may
  /// succeed.
  bool retryable() const;
  /// The server gave the statement up: statement_timeout, or somebody who cancelled it.
  bool canceled() const;
  /// Somebody else holds a lock on a whole table, or on one of its children, for longer than we wait.
  bool table_locked() const;
  /// The transaction may have been committed.
  bool outcome_unknown() const { return kind_ == Kind::unknown_commit; }
  /// This server takes no writes, now or any more: look for another.
  bool not_writable() const;
  /// An answer took too long: our deadline or the server's statement_timeout or lock_timeout.
  bool timed_out() const;
  bool interrupted() const { return kind_ == Kind::interrupted; }
  /// The server refused who we are (wrong password, unknown role or database, pg_hba), and so the connection.
  bool authentication() const;
  /// The server, or a role or a database of it, has as many sessions as it may have.
  bool too_many_connections() const;
  /// The server has no room, memory or connections left: that passes without anybody touching the rows. (A limit that
  /// somebody has set, 53400, does not.)
  bool lacks_resources() const;
  /// The server had no room on its disk, and nobody can write much. Not what a function raises: it may mean one row.
  bool disk_full() const;
  /// The role may not do that.
  bool lacks_privilege() const;
  /// A table, a column or a type is not what the statement was written or planned for. Not what a function raises: it has
  /// tables of its own.
  bool schema_mismatch() const;
  /// A prepared statement is not there, or is somebody else's: a pooler stands in between.
  bool statement_name_lost() const;
  /// The same statement over other rows may succeed: the fault lies in a single row, or may do so.
  bool may_be_one_row() const;
  /// It surely does (a constraint, a trigger that raises, a value that does not cast). Otherwise (a column that is not
  /// there, a privilege: of the system, or of what a trigger does for this row) only other rows can tell.
  bool is_of_the_data() const;

  /// How the error is counted: the class of the SQLSTATE, two characters, wherever there is one that is counted by itself;
  /// else one of the words of error_classes().
  std::string_view error_class() const;

 private:
  Kind kind_;
  std::string sqlstate_;
  std::string query_;
  bool has_context_;
};

/// Every value that Error::error_class() can return.
const std::vector<std::string_view>& error_classes();

}  // namespace ff::pg
