// What the service manager hears over its socket (sd_notify(3)).
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "support/database.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

constexpr const char* kConfig = "partitions: 0-3\nrecovery_grace: 0s\n";

/// The service manager's end of NOTIFY_SOCKET.
class ServiceManager {
 public:
  /// `name`: a path, or "@…" in the abstract name space.
  explicit ServiceManager(std::string name)
      : name_(std::move(name)), fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path, name_.data(), name_.size());
    if (name_[0] == '@') address_.sun_path[0] = '\0';
    REQUIRE(::bind(fd_, address(), size()) == 0);
  }
  ~ServiceManager() { ::close(fd_); }

  const std::string& name() const { return name_; }

  /// Everything that was heard, one datagram after the other, each ended by a line break.
  const std::string& heard() {
    char buffer[4096];
    for (ssize_t got = 0; (got = ::recv(fd_, buffer, sizeof buffer, 0)) >= 0;)
      heard_ += std::string(buffer, static_cast<std::size_t>(got)) + '\n';
    return heard_;
  }
  bool hears(const std::string& text) {
    return wait_until([&] { return heard().find(text) != std::string::npos; });
  }
  /// What was heard so far does not count any more.
  void forget() {
    heard();
    heard_.clear();
  }
  /// It has no room for another datagram until it is heard. What one socket may have under way may be less than that.
  void fill() const {
    for (bool has_room = true; has_room;) {
      const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      has_room = false;
      while (::sendto(fd, "x", 1, 0, address(), size()) == 1) has_room = true;
      REQUIRE(errno == EAGAIN);
      ::close(fd);
    }
  }

 private:
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const { return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size()); }

  const std::string name_;
  const int fd_;
  sockaddr_un address_{};
  std::string heard_;
};

}  // namespace

TEST_CASE(
    "the service manager hears of the start, the state, the scheduler's progress, a reload and the stop") {
  Database database;
  const TemporaryDirectory directory;
  ServiceManager manager((directory.path() / "notify").string());
  RunningDaemon daemon({.conninfo = database.conninfo(),
                        .config = kConfig,
                        .environment = {{"NOTIFY_SOCKET", manager.name()}, {"WATCHDOG_USEC", "600000"}}});
  REQUIRE(manager.hears("READY=1\nSTATUS="));
  CHECK(manager.hears("STATUS=ready, 0 rows moved, 0 errors"));

  // Three times within its period, and again and again.
  for (int i = 0; i < 3; ++i) {
    manager.forget();
    const SteadyTime asked = Clock::system().now();
    CHECK(manager.hears("WATCHDOG=1"));
    CHECK(Clock::system().now() - asked < 600ms + 2s);
  }

  manager.forget();
  daemon.process().signal(SIGHUP);
  REQUIRE(manager.hears("READY=1"));
  const std::string reload = manager.heard();
  const auto reloading = reload.find("RELOADING=1\nMONOTONIC_USEC=");
  REQUIRE(reloading != std::string::npos);
  CHECK(reloading < reload.find("READY=1"));
  CHECK(std::stoll(reload.substr(reloading + 27)) > 0);

  daemon.process().signal(SIGTERM);
  CHECK(manager.hears("STOPPING=1"));
  CHECK(daemon.process().wait() == 0);
}

TEST_CASE("the start is told though the database is away, and the state says so") {
  const TemporaryDirectory directory;
  ServiceManager manager((directory.path() / "notify").string());
  RunningDaemon daemon({.conninfo = "host=" + directory.path().string() + " dbname=x user=y",
                        .config = kConfig,
                        .environment = {{"NOTIFY_SOCKET", manager.name()}, {"WATCHDOG_USEC", "600000"}}});
  CHECK(manager.hears("READY=1"));
  CHECK(manager.hears("STATUS=unreachable, 0 rows moved, 0 errors: "));
  CHECK(manager.hears("WATCHDOG=1"));
  CHECK(daemon.stop() == 0);
}

TEST_CASE("a socket in the abstract name space is served, and no watchdog is told where none was asked for") {
  Database database;
  ServiceManager manager("@ff-test-notify-" + std::to_string(::getpid()));
  RunningDaemon daemon(
      {.conninfo = database.conninfo(),
       .config = kConfig,
       .environment = {
           {"NOTIFY_SOCKET", manager.name()}, {"WATCHDOG_USEC", "600000"}, {"WATCHDOG_PID", "1"}}});
  CHECK(manager.hears("READY=1"));
  CHECK(manager.hears("STATUS=ready"));
  CHECK(daemon.stop() == 0);
  CHECK(manager.hears("STOPPING=1"));
  CHECK(manager.heard().find("WATCHDOG=1") == std::string::npos);
}

TEST_CASE("a service manager that does not listen disturbs nobody") {
  Database database;
  RunningDaemon daemon({.conninfo = database.conninfo(),
                        .config = kConfig,
                        .environment = {{"NOTIFY_SOCKET", "/nonexistent/notify"}}});
  CHECK(wait_until([&] { return daemon.ready(); }));
  CHECK(daemon.stop() == 0);
}

TEST_CASE(
    "a service manager that reads nothing keeps no signal from being obeyed, and hears again once it reads") {
  Database database;
  const TemporaryDirectory directory;
  ServiceManager manager((directory.path() / "notify").string());
  manager.fill();
  RunningDaemon daemon({.conninfo = database.conninfo(),
                        .config = kConfig,
                        .environment = {{"NOTIFY_SOCKET", manager.name()}, {"WATCHDOG_USEC", "600000"}}});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  daemon.process().signal(SIGHUP);
  CHECK(wait_until([&] { return daemon.process().err_has("configuration reloaded"); }, 10s));
  const std::string dropped = "a message to the service manager";
  const auto first = daemon.process().err().find(dropped);
  CHECK(first != std::string::npos);
  CHECK(daemon.process().err().find(dropped, first + 1) == std::string::npos);

  // What it reads makes room, and READY may be the next to come: none of it is forgotten.
  CHECK(manager.hears("READY=1"));
  CHECK(manager.hears("WATCHDOG=1"));
  manager.fill();
  daemon.process().signal(SIGTERM);
  CHECK(daemon.process().wait(20s) == 0);
}

TEST_CASE("a watchdog's period of less than a millisecond does not keep a processor busy") {
  Database database;
  const TemporaryDirectory directory;
  ServiceManager manager((directory.path() / "notify").string());
  RunningDaemon daemon({.conninfo = database.conninfo(),
                        .config = kConfig,
                        .environment = {{"NOTIFY_SOCKET", manager.name()}, {"WATCHDOG_USEC", "900"}}});
  REQUIRE(manager.hears("WATCHDOG=1"));
  manager.forget();
  const SteadyTime until = Clock::system().now() + 1s;
  while (Clock::system().now() < until) {
    manager.heard();
    std::this_thread::sleep_for(1ms);
  }
  std::ptrdiff_t told = 0;
  const std::string& heard = manager.heard();
  for (auto at = heard.find("WATCHDOG=1"); at != std::string::npos; at = heard.find("WATCHDOG=1", at + 1))
    ++told;
  CHECK(told > 0);
  CHECK(told <= 110);
}
