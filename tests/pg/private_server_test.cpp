#include "testserver/private_server.hpp"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <thread>

#include "pg/connect.hpp"

using namespace ff;
using Catch::Matchers::Contains;
using testserver::PrivateServer;
namespace fs = std::filesystem;

namespace {

pg::Connection connect(const PrivateServer& server, std::string_view database = "postgres") {
  pg::ConnectOptions options;
  options.conninfo = server.conninfo(database);
  return pg::Connector(options).connect(Clock::system().now() + Milliseconds{10'000});
}

std::string setting(pg::Connection& connection, const std::string& name) {
  return connection.execute("SELECT current_setting($1)", pg::Params::of(name)).one().get<std::string>(0);
}

bool ends_within(pid_t child, Milliseconds time) {
  const SteadyTime deadline = Clock::system().now() + time;
  while (::waitpid(child, nullptr, WNOHANG) == 0) {
    if (Clock::system().now() >= deadline) return false;
    std::this_thread::sleep_for(Milliseconds{2});
  }
  return true;
}

}  // namespace

TEST_CASE("a private server keeps its data and its address over every kind of restart") {
  const auto how =
      GENERATE(PrivateServer::Stop::fast, PrivateServer::Stop::immediate, PrivateServer::Stop::kill);
  PrivateServer server;
  server.create_database("a \"b\" 'c'");
  connect(server, "a \"b\" 'c'").execute("CREATE TABLE t AS SELECT 42 AS n");
  const auto first = server.pid();
  auto session = connect(server);
  server.stop(how);
  CHECK_FALSE(server.running());
  CHECK_FALSE(server.pid());
  CHECK_THROWS_AS(session.execute("SELECT 1"), pg::Error);
  CHECK_THROWS_AS(connect(server), pg::Error);
  server.start();
  CHECK(server.pid() != first);
  auto db = connect(server, "a \"b\" 'c'");
  CHECK(db.execute("SELECT n FROM t").one().get<std::int32_t>(0) == 42);
}

TEST_CASE("a private server listens on its own socket only, and the settings given win over its own") {
  PrivateServer server({.settings = {{"max_connections", "17"}, {"application_name", "it's"}}});
  auto db = connect(server);
  CHECK(setting(db, "listen_addresses").empty());
  CHECK(setting(db, "unix_socket_directories") == server.socket_directory());
  CHECK(setting(db, "max_connections") == "17");
  CHECK(setting(db, "fsync") == "off");
  CHECK(setting(db, "synchronous_commit") == "on");
  CHECK(setting(db, "server_encoding") == "UTF8");
}

TEST_CASE("a durable private server flushes as a real one does") {
  const PrivateServer server({.durable = true});
  auto db = connect(server);
  CHECK(setting(db, "fsync") == "on");
  CHECK(setting(db, "full_page_writes") == "on");
}

TEST_CASE("a private server drops a database with sessions in it, and one that is not there") {
  PrivateServer server;
  server.create_database("d");
  auto session = connect(server, "d");
  server.drop_database("d");
  server.drop_database("d");
  CHECK_THROWS_AS(session.execute("SELECT 1"), pg::Error);
}

TEST_CASE("a private server that cannot start says why and leaves nothing behind") {
  fs::path directory;
  try {
    PrivateServer server({.settings = {{"shared_buffers", "plenty"}}});
    FAIL("it started");
  } catch (const std::runtime_error& error) {
    CHECK_THAT(error.what(), Contains("exited with 1") && Contains("invalid value for parameter"));
    const std::string text = error.what();
    constexpr std::string_view kBefore = "permissions on existing directory ";
    const auto begin = text.find(kBefore) + kBefore.size();
    directory = fs::path(text.substr(begin, text.find(" ...", begin) - begin)).parent_path();
  }
  CHECK_THAT(directory.string(), Contains("ff-postgres-"));
  CHECK_FALSE(fs::exists(directory));
}

TEST_CASE("what the server's account may write lies below a directory that it may not") {
  if (::geteuid() != 0) {
    WARN("not root: there is no other account");
    return;
  }
  PrivateServer server;
  struct stat ours {};
  REQUIRE(::stat(server.directory().c_str(), &ours) == 0);
  CHECK(ours.st_uid == 0);
  CHECK((ours.st_mode & 0777) == 0711);
  std::size_t theirs = 0;
  for (const auto& entry : fs::directory_iterator(server.directory())) {
    struct stat found {};
    REQUIRE(::lstat(entry.path().c_str(), &found) == 0);
    CHECK((found.st_uid == 0 || S_ISDIR(found.st_mode)));
    theirs += found.st_uid == 0 ? 0 : 1;
  }
  CHECK(theirs == 2);  // its data and its socket
}

TEST_CASE("a private server is gone with its object, directory and all") {
  fs::path directory;
  pid_t pid = 0;
  {
    PrivateServer server;
    directory = server.directory();
    pid = server.pid().value();
    CHECK(::getsid(pid) == pid);  // so Ctrl-C in a terminal does not reach it
    CHECK(fs::exists(directory));
  }
  CHECK_FALSE(fs::exists(directory));
  CHECK(::kill(pid, 0) == -1);
}

TEST_CASE("a private server does not outlive a process that is killed") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  // What is left of the killed process becomes our child, and can be waited for.
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    PrivateServer server;
    const pid_t pid = server.pid().value();
    const std::string path = server.directory();
    if (::write(ends[1], &pid, sizeof pid) > 0 && ::write(ends[1], path.data(), path.size()) > 0) ::pause();
    ::_exit(1);
  }
  pid_t pid = 0;
  std::array<char, 200> path{};
  REQUIRE(::read(ends[0], &pid, sizeof pid) == sizeof pid);
  REQUIRE(::read(ends[0], path.data(), path.size() - 1) > 0);
  ::kill(owner, SIGKILL);
  CHECK(ends_within(owner, Milliseconds{10'000}));
  CHECK(ends_within(pid, Milliseconds{10'000}));
  CHECK_FALSE(fs::exists(fs::path(path.data()) / "socket" / ".s.PGSQL.5432"));
  fs::remove_all(path.data());
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("a fork of the owner's process leaves the private server alone") {
  PrivateServer server;
  const pid_t fork = ::fork();
  if (fork == 0) {
    server.~PrivateServer();
    ::_exit(0);
  }
  CHECK(ends_within(fork, Milliseconds{10'000}));
  CHECK(server.running());
  CHECK(fs::exists(server.directory()));
  CHECK_NOTHROW(connect(server));
}

TEST_CASE("a private server is reached, and no other, whatever address the environment names") {
  ::setenv("PGHOSTADDR", "127.0.0.1", 1);
  const PrivateServer server;
  auto db = connect(server);
  CHECK(setting(db, "data_directory") == server.data());
  ::unsetenv("PGHOSTADDR");
}
