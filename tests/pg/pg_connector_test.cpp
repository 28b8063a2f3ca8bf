// How a connection is made: hosts, passwords, and servers that take no writes. What is refused before: tests/unit.
#include <utility>
// Asio 1.74 relies on <utility>.
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/printable.hpp"
#include "pg/pool.hpp"
#include "support/database.hpp"
#include "support/engine.hpp"
#include "support/log_capture.hpp"
#include "support/process.hpp"

using namespace ff;
using test::Database;
using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace {

constexpr auto kNowhere = "/nonexistent/sockets";

SteadyTime soon() {
  return Clock::system().now() + 10s;
}

pg::Connection connect_to(const pg::ConnectOptions& options) {
  return pg::Connector(options).connect(soon());
}

pg::ConnectOptions to(const std::string& conninfo) {
  pg::ConnectOptions options;
  options.conninfo = conninfo;
  return options;
}

pg::Error error_of(const pg::ConnectOptions& options) {
  try {
    connect_to(options);
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
  testserver::PrivateServer server;
  std::filesystem::path file = server.directory() / "password";

  PasswordServer() {
    auto admin = connect_to(to(server.conninfo()));
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
      connect_to(with);
      return true;
    } catch (const pg::Error&) {
      return false;
    }
  }
  void write(const std::string& content) const { std::ofstream(file) << content; }
};

/// A port of this machine where everybody can connect and nobody says a word.
class SilentPort {
 public:
  SilentPort() : acceptor_(io_, {asio::ip::make_address("127.0.0.1"), 0}) {}
  unsigned short number() const { return acceptor_.local_endpoint().port(); }

 protected:
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
};

std::string two_bytes(std::uint32_t number) {
  return {static_cast<char>(number >> 8U), static_cast<char>(number)};
}
std::string four_bytes(std::uint32_t number) {
  return two_bytes(number >> 16U) + two_bytes(number);
}

/// As a server says it (PostgreSQL documentation, "Message Formats").
std::string message(char kind, const std::string& content) {
  return kind + four_bytes(static_cast<std::uint32_t>(content.size() + sizeof(std::uint32_t))) + content;
}

/// What a server sends instead of letting somebody in.
std::string refusal(const std::string& sqlstate, const std::string& text) {
  std::string fields;
  for (const auto& field :
       {std::string("SFATAL"), std::string("VFATAL"), "C" + sqlstate, "M" + text, std::string()})
    fields += field + '\0';
  return message('E', fields);
}

/// One that gives the first who comes and asks this answer, and another one when he asks again.
class Impostor : public SilentPort {
 public:
  explicit Impostor(std::string answer, std::string next = {})
      : answer_(std::move(answer)), next_(std::move(next)) {}

 private:
  void say() {
    auto peer = acceptor_.accept();
    std::array<unsigned char, 8> asked{};
    asio::read(peer, asio::buffer(asked));
    const std::size_t length = std::size_t{asked[2]} * 256 + asked[3];  // stands first, in four bytes
    std::vector<char> rest(length - asked.size());
    boost::system::error_code error;  // who has heard enough may hang up
    asio::read(peer, asio::buffer(rest), error);
    asio::write(peer, asio::buffer(answer_), error);
    if (!error) peer.read_some(asio::buffer(asked), error);
    if (!error) asio::write(peer, asio::buffer(next_), error);
    while (!error) peer.read_some(asio::buffer(asked), error);
  }
  const std::string answer_, next_;
  std::jthread thread_{[this] { say(); }};
};

/// A variable of the environment, for the time that this lives.
struct Variable {
  Variable(const char* name_, const std::string& value) : name(name_) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  const char* name;
};

}  // namespace

TEST_CASE("a connection names its application and its place") {
  const Database database;
  auto options = to(database.conninfo());
  options.application_name = "ff-name";
  auto db = connect_to(options);
  CHECK(db.execute("SELECT current_setting('application_name')").one().get<std::string>(0) == "ff-name");
  CHECK(db.description().find("/" + database.name() + " as ") != std::string::npos);
  options.conninfo += " application_name=theirs";
  auto other = connect_to(options);
  CHECK(other.execute("SELECT current_setting('application_name')").one().get<std::string>(0) == "theirs");
}

TEST_CASE("of several hosts the first that answers is taken, and remembered") {
  const Database database;
  const auto where = connect_to(to(database.conninfo())).description();
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

TEST_CASE("hosts that are dark leave the others their share of the time") {
  const Database database;
  const auto where = connect_to(to(database.conninfo())).description();
  const auto socket = where.substr(0, where.find(':'));
  const SilentPort one;
  const SilentPort two;
  const pg::Connector connector(to(database.conninfo() + " host=127.0.0.1,127.0.0.1," + socket +
                                   " port=" + std::to_string(one.number()) + "," +
                                   std::to_string(two.number()) + ",5432"));
  CHECK_NOTHROW(connector.connect(Clock::system().now() + 3s));
}

TEST_CASE("after an attempt that failed the next begins behind it") {
  const Database database;
  const auto where = connect_to(to(database.conninfo())).description();
  const SilentPort dark;
  auto options = to(database.conninfo() + " host=127.0.0.1," + where.substr(0, where.find(':')) +
                    " port=" + std::to_string(dark.number()) + ",5432");
  options.connect_timeout = 60s;
  const pg::Connector connector(options);
  pg::Interrupt interrupt;
  std::thread raiser([&] {
    std::this_thread::sleep_for(100ms);
    interrupt.raise();
  });
  CHECK_THROWS_AS(connector.connect(soon(), &interrupt), pg::Error);
  raiser.join();
  const auto started = Clock::system().now();
  CHECK_NOTHROW(connector.connect(soon()));
  CHECK(Clock::system().now() - started < 4s);  // the dark one would have had five
}

TEST_CASE(
    "a host that stays dark has a third of its time where another answers, and all its time where none "
    "does") {
  const ReadOnlyDatabase database;
  const auto where = connect_to(to(database.conninfo() + " target_session_attrs=any")).description();
  const std::string socket = where.substr(0, where.find(':'));
  const SilentPort dark;
  const auto time_of = [](const pg::Connector& connector) {
    const auto started = Clock::system().now();
    CHECK_THROWS_AS(connector.connect(Clock::system().now() + 10s), pg::Error);
    return Clock::system().now() - started;
  };
  const auto connector_to = [&](const std::string& other, const std::string& port) {
    auto options = to(database.conninfo() + " host=127.0.0.1," + other +
                      " port=" + std::to_string(dark.number()) + "," + port);
    options.connect_timeout = 3s;
    return std::make_unique<pg::Connector>(options);
  };
  const auto with_standby = connector_to(socket, "5432");
  CHECK(time_of(*with_standby) >= 3s);
  for (int i = 0; i < 2; ++i) {
    const auto took = time_of(*with_standby);
    CHECK(took >= 1s);
    CHECK(took < 2500ms);
  }
  const SilentPort another;
  const auto all_dark = connector_to("127.0.0.1", std::to_string(another.number()));
  for (int i = 0; i < 2; ++i) CHECK(time_of(*all_dark) >= 6s);
}

TEST_CASE("what nobody has set does not override the service") {
  const testserver::PrivateServer server;
  const Impostor without_tls("N");
  const auto file = server.directory() / "services";
  std::ofstream(file) << "[real]\n"
                      << "host=" << server.socket_directory().string()
                      << "\nport=5432\nuser=postgres\ndbname=template1\n"
                      << "[verified]\nhost=127.0.0.1\nport=" << without_tls.number()
                      << "\nuser=somebody\ndbname=x\nsslmode=verify-full\n"
                      << "[any]\nhost=h1,h2\nport=1,2\nuser=u\ndbname=d\ntarget_session_attrs=primary\n";
  const Variable services("PGSERVICEFILE", file);
  CHECK(connect_to(to("service=real")).description().ends_with("/template1 as postgres"));
  CHECK(connect_to(to("service=real dbname=postgres")).description().ends_with("/postgres as postgres"));
  CHECK(pg::Connector(to("service=verified")).description().starts_with("somebody@127.0.0.1:"));
  // Libpq's own default would go on without.
  CHECK_THAT(error_of(to("service=verified")).what(),
             Catch::Contains("SSL") || Catch::Contains("root certificate"));
  CHECK(pg::Connector(to("service=any")).description() == "u@h1:1,h2:2/d");
  CHECK_FALSE(pg::Connector(to("service=any")).takes_read_only());
  CHECK_THROWS_AS(pg::Connector(to("service=none")), std::invalid_argument);
  const Variable service("PGSERVICE", "real");
  CHECK(connect_to(to("")).description().ends_with("/template1 as postgres"));
}

TEST_CASE("whatever a peer says before it has shown who it is, it is told in short and on one line") {
  const Impostor impostor(refusal("28P01", std::string(28'000, ' ') + "\nno\x1b[2J" + std::string(200, ':')));
  const auto error = error_of(
      to("host=127.0.0.1 sslmode=disable user=u dbname=d port=" + std::to_string(impostor.number())));
  const std::string said = error.what();
  CHECK(said.size() <= 2 * kLongestShown);
  CHECK(said.find_first_of("\n\x1b") == std::string::npos);
}

TEST_CASE("a peer that answers what is no answer is refused, and takes no place of a pool") {
  std::string said = message('R', four_bytes(0));  // nobody asks who it is
  for (const auto& [name, value] :
       {std::pair{"in_hot_standby", "off"}, {"default_transaction_read_only", "off"}})
    said += message('S', std::string(name) + '\0' + value + '\0');
  said += message('K', four_bytes(7) + four_bytes(7)) + message('Z', "I");
  // One row of one column, an integer that is none.
  std::string next = message('1', "") + message('2', "");
  next += message('T', two_bytes(1) + std::string("pid") + '\0' + four_bytes(0) + two_bytes(0) +
                           four_bytes(23) + two_bytes(4) + four_bytes(0) + two_bytes(0));
  next += message('D', two_bytes(1) + four_bytes(11) + "99999999999") +
          message('C', std::string("SELECT 1") + '\0');
  next += message('Z', "I");
  const Impostor impostor(said, next);
  const pg::Connector connector(
      to("host=127.0.0.1 sslmode=disable user=u dbname=d port=" + std::to_string(impostor.number())));
  pg::Pool pool(connector, 1, 5s);
  CHECK_THROWS_WITH(pool.acquire(), Catch::Contains("does not answer as PostgreSQL does"));
  CHECK(pool.state().in_use == 0);
}

TEST_CASE("a database that does not exist is an error of authentication") {
  const auto error = error_of(to(Database::server().conninfo("no_such_database")));
  CHECK(error.sqlstate() == "3D000");
  CHECK(error.authentication());
  CHECK(error.connection_lost());
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
  CHECK_NOTHROW(connect_to(options));

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
  const test::TemporaryDirectory directory;
  options.password_file = directory.write("empty", "\n");
  CHECK_THAT(error_of(options).what(), Catch::Contains("/empty: is empty (write the password"));
  options.password_file = Database::server().directory();
  CHECK_THAT(error_of(options).what(), Catch::Contains("password file"));
}

TEST_CASE("a password file that everybody may read is warned of") {
  const test::TemporaryDirectory directory;
  auto options = to(Database::server().conninfo());
  options.password_file = directory.path() / "password";
  std::ofstream(options.password_file) << "right\n";
  using fs = std::filesystem::perms;
  const auto warnings = [&](fs perms) {
    std::filesystem::permissions(options.password_file, perms);
    const test::LogCapture log;
    const pg::Connector connector(options);
    return log.lines();
  };
  CHECK(warnings(fs::owner_read | fs::group_read).empty());
  const auto said = warnings(fs::owner_read | fs::others_read);
  REQUIRE(said.size() == 1);
  CHECK_THAT(said.front(), Catch::StartsWith("warn") && Catch::Contains(options.password_file));
}

TEST_CASE("a server that takes no writes is refused unless the connection string accepts it") {
  const ReadOnlyDatabase database;
  const auto error = error_of(to(database.conninfo()));
  CHECK(error.kind() == pg::Error::Kind::not_writable);
  CHECK(error.not_writable());
  CHECK_FALSE(error.connection_lost());
  CHECK(error_of(to(database.conninfo() + " target_session_attrs=read-write")).not_writable());
  CHECK_NOTHROW(connect_to(to(database.conninfo() + " target_session_attrs=primary")));
  CHECK_NOTHROW(connect_to(to(database.conninfo() + " target_session_attrs=any")));
}

TEST_CASE("a connection that is not made in time ends at its deadline") {
  pg::ConnectOptions options = to("host=192.0.2.1 port=1 dbname=x user=y");  // an address that nobody has
  options.connect_timeout = 50ms;
  const auto started = Clock::system().now();
  const auto error = error_of(options);
  CHECK(Clock::system().now() - started < 5s);
  CHECK(error.connection_lost());
}
