// How a connection is made: hosts, passwords, and servers that take no writes.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "support/database.hpp"
#include "support/engine.hpp"

using namespace ff;
using test::Database;
using namespace std::chrono_literals;

namespace {

constexpr auto kNowhere = "/nonexistent/sockets";

SteadyTime soon() {
  return Clock::system().now() + 10s;
}

pg::Connection connect(const pg::ConnectOptions& options) {
  return pg::Connector(options).connect(soon());
}

pg::ConnectOptions to(const std::string& conninfo) {
  pg::ConnectOptions options;
  options.conninfo = conninfo;
  return options;
}

pg::Error error_of(const pg::ConnectOptions& options) {
  try {
    connect(options);
  } catch (const pg::Error& error) {
    return error;
  }
  throw std::logic_error("it connected");
}

/// A database whose server says that it takes no writes.
struct ReadOnlyDatabase : Database {
  ReadOnlyDatabase() {
    connect().execute("ALTER DATABASE " + name() + " SET default_transaction_read_only = on");
  }
};

/// A database that asks its user "guarded" for a password: "right".
struct PasswordServer {
  sandbox::PrivateServer server;
  std::filesystem::path file = server.directory() / "password";

  PasswordServer() {
    auto admin = ::connect(to(server.conninfo()));
    admin.execute_script("CREATE ROLE guarded LOGIN PASSWORD 'right'");
    const auto path = admin.execute("SHOW hba_file").one().get<std::string>(0);
    std::ifstream before(path);
    const std::string lines((std::istreambuf_iterator<char>(before)), {});
    std::ofstream(path) << "local all guarded scram-sha-256\n" << lines;
    admin.execute("SELECT pg_reload_conf()");
    // The postmaster reads the file when it gets to it: a wrong password is refused from then on.
    while (reaches("wrong")) {
    }
  }
  pg::ConnectOptions options() const { return to(server.conninfo() + " user=guarded"); }
  bool reaches(const std::string& password) const {
    auto with = options();
    with.password = password;
    try {
      ::connect(with);
      return true;
    } catch (const pg::Error&) {
      return false;
    }
  }
  void write(const std::string& content) const { std::ofstream(file) << content; }
};

}  // namespace

TEST_CASE("a connection names its application and its place") {
  const Database database;
  auto options = to(database.conninfo());
  options.application_name = "ff-name";
  auto db = connect(options);
  CHECK(db.execute("SELECT current_setting('application_name')").one().get<std::string>(0) == "ff-name");
  CHECK(db.description().find("/" + database.name() + " as ") != std::string::npos);
  options.conninfo += " application_name=theirs";
  auto other = connect(options);
  CHECK(other.execute("SELECT current_setting('application_name')").one().get<std::string>(0) == "theirs");
}

TEST_CASE("of several hosts the first that answers is taken, and remembered") {
  const Database database;
  const auto where = connect(to(database.conninfo())).description();
  const auto alive = where.substr(0, where.find(':'));
  const pg::Connector connector(to(database.conninfo() + " host=" + kNowhere + "," + alive));
  auto first = connector.connect(soon());
  CHECK(first.execute("SELECT 1").size() == 1);
  CHECK(connector.connect(soon()).execute("SELECT 1").size() == 1);
  CHECK(connector.description().find(kNowhere) != std::string::npos);
}

TEST_CASE("when no host answers the error has a clause for each") {
  const auto error = error_of(to("host=/nonexistent/a,/nonexistent/b dbname=x user=y"));
  CHECK(error.kind() == pg::Error::Kind::connection);
  CHECK(error.connection_lost());
  CHECK_THAT(error.what(), Catch::Contains("/nonexistent/a") && Catch::Contains("/nonexistent/b"));
}

TEST_CASE("a number of ports that does not fit the hosts is refused at once") {
  CHECK_THROWS_AS(pg::Connector(to("host=a,b port=1,2,3")), std::invalid_argument);
  CHECK_NOTHROW(pg::Connector(to("host=a,b port=1,2")));
  CHECK_NOTHROW(pg::Connector(to("host=a,b port=1")));
}

TEST_CASE("a database that does not exist is an error of authentication") {
  const auto error = error_of(to(Database::server().conninfo("no_such_database")));
  CHECK(error.sqlstate() == "3D000");
  CHECK(error.authentication());
  CHECK(error.connection_lost());
}

TEST_CASE("a connection string that cannot be parsed is refused without its password") {
  const auto conninfo =
      GENERATE(as<std::string>(), "host=a password='s3cret", "host=a password s3cret", "host=a s3cret",
               "host=a user=b password=x s3cret=1", "postgresql://user:s3cret@host:port:port/db?x",
               "postgresql://u:s3cret%zz@h/d", "postgresql://u:s3cret@h/d?nonsense=s3cret");
  CAPTURE(conninfo);
  try {
    const pg::Connector connector(to(conninfo));
    FAIL("it was accepted");
  } catch (const std::invalid_argument& error) {
    CHECK_THAT(error.what(), Catch::Contains("cannot be parsed") && !Catch::Contains("s3cret"));
  }
}

TEST_CASE("the description of a connector has hosts, database and user but no password") {
  auto options = to("postgresql://someone:s3cret@h1:5433,h2:5434/things?connect_timeout=3");
  options.password = "s3cret2";
  const auto text = pg::Connector(options).description();
  CHECK(text == "someone@h1:5433,h2:5434/things");
}

TEST_CASE("a password comes from the options, over the connection string, or from a file over both") {
  const PasswordServer guarded;
  CHECK(guarded.reaches("right"));
  auto options = guarded.options();
  const auto refused = error_of(options);
  CHECK(refused.kind() == pg::Error::Kind::connection);

  options.conninfo += " password=wrong";
  CHECK(error_of(options).authentication());
  CHECK(error_of(options).sqlstate() == "28P01");
  CHECK_THAT(error_of(options).what(), !Catch::Contains("wrong"));
  options.password = "right";
  CHECK_NOTHROW(connect(options));

  options.password = "wrong";
  options.password_file = guarded.file;
  guarded.write("right\n");
  const pg::Connector connector(options);
  CHECK_NOTHROW(connector.connect(soon()));
  guarded.write("right");
  CHECK_NOTHROW(connector.connect(soon()));
  // Read anew for each connection, so that a password can be rotated.
  guarded.write("old");
  CHECK_THROWS_AS(connector.connect(soon()), pg::Error);
  guarded.write("right\n\n");  // only one newline is not part of it
  CHECK_THROWS_AS(connector.connect(soon()), pg::Error);
}

TEST_CASE("a password file that cannot be read is named") {
  const Database database;
  auto options = to(database.conninfo());
  options.password_file = "/nonexistent/password";
  CHECK_THAT(error_of(options).what(), Catch::Contains("/nonexistent/password"));
  options.password_file = Database::server().directory();
  CHECK_THAT(error_of(options).what(), Catch::Contains("password file"));
}

TEST_CASE("a server that takes no writes is refused unless the connection string accepts it") {
  const ReadOnlyDatabase database;
  const auto error = error_of(to(database.conninfo()));
  CHECK(error.kind() == pg::Error::Kind::not_writable);
  CHECK(error.not_writable());
  CHECK_FALSE(error.connection_lost());
  CHECK(error_of(to(database.conninfo() + " target_session_attrs=read-write")).not_writable());
  CHECK_NOTHROW(connect(to(database.conninfo() + " target_session_attrs=primary")));
  CHECK_NOTHROW(connect(to(database.conninfo() + " target_session_attrs=any")));
}

TEST_CASE("a connection that is not made in time ends at its deadline") {
  pg::ConnectOptions options = to("host=192.0.2.1 port=1 dbname=x user=y");  // an address that nobody has
  options.connect_timeout = 50ms;
  const auto started = Clock::system().now();
  const auto error = error_of(options);
  CHECK(Clock::system().now() - started < 5s);
  CHECK(error.connection_lost());
}
