#include "pg/error.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "pg/sqlstate.hpp"

using ff::pg::Error;
using ff::pg::error_classes;
using Kind = Error::Kind;

namespace {

Error server(const std::string& sqlstate) {
  return {Kind::server, "the message", sqlstate, "SELECT 1"};
}
Error ours(Kind kind) {
  return {kind, "the message"};
}

}  // namespace

TEST_CASE("a SQLSTATE has its name beside it, and one that nobody knows stands alone") {
  CHECK(ff::pg::named_sqlstate("42501") == "42501 insufficient_privilege");
  CHECK(ff::pg::named_sqlstate("08000") == "08000 connection_exception");
  CHECK(ff::pg::named_sqlstate("XX002") == "XX002 index_corrupted");
  CHECK(ff::pg::named_sqlstate("ZZ999") == "ZZ999");
  CHECK(ff::pg::named_sqlstate("") == "");
}

TEST_CASE("an error keeps what the server said") {
  const Error error = server("23505");
  CHECK(error.what() == std::string("the message"));
  CHECK(error.sqlstate() == "23505");
  CHECK(error.query() == "SELECT 1");
  CHECK(error.kind() == Kind::server);
}

TEST_CASE("a connection is lost when it broke, and when the server ends it") {
  CHECK(ours(Kind::connection).connection_lost());
  CHECK(ours(Kind::unknown_commit).connection_lost());
  // A code alone says nothing: a trigger may raise it.
  for (const char* state : {"08006", "57P01", "57014", "57P04", "23505", "25006", "40001", ""})
    CHECK_FALSE(server(state).connection_lost());
  for (const Kind kind : {Kind::timeout, Kind::interrupted, Kind::not_writable})
    CHECK_FALSE(ours(kind).connection_lost());
}

TEST_CASE("a conflict with another transaction and a lost prepared statement may be tried again") {
  for (const char* state : {"40001", "40P01", "26000", "42P05"}) CHECK(server(state).retryable());
  for (const char* state : {"40002", "40003", "23505", "57014", ""}) CHECK_FALSE(server(state).retryable());
  CHECK(server("26000").statement_name_lost());
  CHECK_FALSE(server("40001").statement_name_lost());
  // A trigger may raise that, too, and no statement is lost.
  const Error raised(Kind::server, "the message", "26000", "SELECT 1", true);
  CHECK_FALSE(raised.statement_name_lost());
  CHECK_FALSE(raised.retryable());
}

TEST_CASE("only a commit under way leaves the outcome unknown") {
  CHECK(ours(Kind::unknown_commit).outcome_unknown());
  CHECK_FALSE(ours(Kind::connection).outcome_unknown());
  CHECK_FALSE(server("08007").outcome_unknown());
}

TEST_CASE("a server that takes no writes is recognised") {
  CHECK(ours(Kind::not_writable).not_writable());
  CHECK(server("25006").not_writable());
  CHECK_FALSE(server("25001").not_writable());
  CHECK_FALSE(ours(Kind::connection).not_writable());
}

TEST_CASE("waiting too long is a time-out, whoever noticed it") {
  CHECK(ours(Kind::timeout).timed_out());
  CHECK(server("57014").timed_out());
  CHECK(server("55P03").timed_out());
  CHECK_FALSE(server("55006").timed_out());
  CHECK_FALSE(ours(Kind::interrupted).timed_out());
}

TEST_CASE("a server that refuses who we are is told from one that is away") {
  for (const char* state : {"28000", "28P01", "3D000", "42501"}) {
    CHECK(Error(Kind::connection, "FATAL", state).authentication());
    CHECK(Error(Kind::connection, "FATAL", state).connection_lost());
    // A statement that is refused is not the login.
    CHECK_FALSE(server(state).authentication());
  }
  CHECK_FALSE(ours(Kind::connection).authentication());
  CHECK_FALSE(server("42P01").authentication());
}

TEST_CASE("a server that has as many sessions as it may have is told from one that is away") {
  CHECK(Error(Kind::connection, "FATAL", "53300").too_many_connections());
  CHECK_FALSE(server("53200").too_many_connections());
  CHECK_FALSE(ours(Kind::connection).too_many_connections());
}

TEST_CASE("what the server lacks passes without anybody touching the rows") {
  for (const char* state : {"53000", "53100", "53200", "53300"}) CHECK(server(state).lacks_resources());
  for (const char* state : {"53400", "54000", "57014", "55P03", "58030", "P0001", ""})
    CHECK_FALSE(server(state).lacks_resources());
}

TEST_CASE("a full disk is what the server says of itself, and not a function of its choice") {
  CHECK(server("53100").disk_full());
  CHECK_FALSE(server("53200").disk_full());
  CHECK_FALSE(Error(Kind::server, "no room", "53100", "", true).disk_full());
  CHECK_FALSE(Error(Kind::connection, "no room", "53100").disk_full());
}

TEST_CASE(
    "a statement that no longer fits the schema says so, and a privilege or a function's own tables do not") {
  for (const char* state : {"42P01", "42703", "42883", "0A000"}) {
    CHECK(server(state).schema_mismatch());
    CHECK_FALSE(Error(Kind::server, "of a trigger", state, "SELECT 1", true).schema_mismatch());
    CHECK_FALSE(Error(Kind::connection, "as a login", state).schema_mismatch());
  }
  for (const char* state : {"42501", "42P05", "23505", "55P03", ""})
    CHECK_FALSE(server(state).schema_mismatch());
}

TEST_CASE("what may lie in one row is worth halving the batch, and some of it can lie nowhere else") {
  for (const char* state : {"21000", "22003", "22P02", "23505", "23514", "38000", "44000", "54000", "P0001",
                            "XX000", "57014", "ZZ001", "IX000"}) {
    CHECK(server(state).may_be_one_row());
    CHECK(server(state).is_of_the_data());
  }
  for (const char* state : {"0A000", "40001", "42703", "42883", "42501", "53400", "53200", "55000", "08006",
                            "25006", "26000", "42P05", "57P01", "57000"}) {
    CHECK(server(state).may_be_one_row());
    CHECK_FALSE(server(state).is_of_the_data());
  }
  for (const char* state : {"54000", "54001"}) {
    const Error at_commit(Kind::server, "too many notifications", state, "COMMIT");
    CHECK(at_commit.may_be_one_row());
    CHECK_FALSE(at_commit.is_of_the_data());
  }
  for (const char* state : {"55P03", ""}) {
    CHECK_FALSE(server(state).may_be_one_row());
    CHECK_FALSE(server(state).is_of_the_data());
  }
  for (const Kind kind :
       {Kind::connection, Kind::timeout, Kind::interrupted, Kind::not_writable, Kind::unknown_commit})
    CHECK_FALSE(ours(kind).may_be_one_row());
}

TEST_CASE("errors are counted by class") {
  CHECK(server("23505").error_class() == "23");
  CHECK(server("42P01").error_class() == "42");
  CHECK(server("P0001").error_class() == "P0");
  CHECK(server("25006").error_class() == "25");
  CHECK(server("57014").error_class() == "timeout");
  CHECK(server("55P03").error_class() == "timeout");
  CHECK(server("55006").error_class() == "55");
  CHECK(server("57P01").error_class() == "57");
  CHECK(server("08006").error_class() == "other");
  CHECK(server("ZZ123").error_class() == "other");
  CHECK(server("").error_class() == "other");
  CHECK(ours(Kind::timeout).error_class() == "timeout");
  CHECK(ours(Kind::connection).error_class() == "connection");
  CHECK(ours(Kind::unknown_commit).error_class() == "connection");
  CHECK(ours(Kind::not_writable).error_class() == "connection");
  CHECK(ours(Kind::interrupted).error_class() == "internal");
}

TEST_CASE("what the server says while it refuses or ends a session is counted by its class, too") {
  const auto ended = [](const char* state) { return Error(Kind::connection, "FATAL", state); };
  for (const auto& [state, cls] :
       {std::pair{"28P01", "28"}, {"3D000", "3D"}, {"53300", "53"}, {"57P01", "57"}})
    CHECK(ended(state).error_class() == cls);
  CHECK(ended("08P01").error_class() == "connection");
  CHECK(Error(Kind::unknown_commit, "FATAL", "57P01").error_class() == "57");
  CHECK(Error(Kind::timeout, "all are in use", "53300").error_class() == "53");
}

TEST_CASE("every class that an error can have is known from the start, once") {
  auto classes = error_classes();
  for (const char* state : {"21000", "22003", "23505", "25006", "26000", "28P01", "3D000", "40001", "42P01",
                            "53200", "54000", "55006", "57P04", "58000", "P0001", "XX000", "ZZ999", ""}) {
    CAPTURE(state);
    CHECK(std::count(classes.begin(), classes.end(), server(state).error_class()) == 1);
  }
  for (const Kind kind :
       {Kind::connection, Kind::timeout, Kind::interrupted, Kind::not_writable, Kind::unknown_commit})
    CHECK(std::count(classes.begin(), classes.end(), ours(kind).error_class()) == 1);
  std::sort(classes.begin(), classes.end());
  CHECK(std::adjacent_find(classes.begin(), classes.end()) == classes.end());
}
