#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pg/connection.hpp"
#include "testserver/child_process.hpp"

namespace ff::testserver {

struct ServerOptions {
  /// Without it nothing is ever flushed to disk: fast, and only a crash of the whole machine loses anything.
  bool durable = false;
  /// As on the command line of `postgres`; they win over ours.
  std::map<std::string, std::string> settings{};
  /// NAME=value, beside what every server gets.
  std::vector<std::string> environment{};
  /// The data directory of a server that has stopped: this one works on it where it lies, and leaves it there.
  /// It has to belong to the account that this one runs as, and to no other server at the same time.
  std::filesystem::path data{};
};

/// A PostgreSQL server of our own in a temporary directory, reachable through a Unix socket below it and no
/// other way, gone with the object: its destructor stops it and removes the directory. It does not outlive us
/// when we are killed either (see ChildProcess, also for which thread has to start it); only the directory
/// stays then.
///
/// When we are root, it runs as `postgres` or else as `nobody`, because PostgreSQL refuses root; the
/// temporary directory has to lie where these can reach it.
///
/// One thread at a time, but for conninfo(), directory() and log_tail().
class PrivateServer {
 public:
  /// How a server is stopped: `fast` ends all sessions and writes everything out, `immediate` is a crash that
  /// leaves recovery to the next start, `kill` is the same without any goodbye (SIGKILL to all of it).
  enum class Stop { fast, immediate, kill };

  /// Makes the cluster (in $TMPDIR or /tmp) and starts it; accepts connections when this returns. Throws
  /// std::runtime_error with the last lines of the server's log, also when no server programs are found.
  explicit PrivateServer(const ServerOptions& options = {});
  ~PrivateServer();
  PrivateServer(const PrivateServer&) = delete;
  PrivateServer& operator=(const PrivateServer&) = delete;

  /// A libpq keyword string for the superuser; it stays the same over restarts.
  std::string conninfo(std::string_view database = "postgres") const;

  /// Any name will do, it is quoted. A template (empty: the server's own) must have no sessions.
  void create_database(std::string_view name, std::string_view from_template = {});
  /// Ends the sessions in it; no error when there is no such database.
  void drop_database(std::string_view name);

  /// Does nothing when it is not running. A stop that takes too long becomes an immediate one, then a kill.
  void stop(Stop how = Stop::fast);
  /// Does nothing when it is running. Throws as the constructor does.
  void start();
  void restart(Stop how = Stop::fast);
  bool running();

  /// Of the postmaster; nothing when it is not running.
  std::optional<pid_t> pid();
  /// Ours alone: what the server's account may write lies in directories below it.
  const std::filesystem::path& directory() const { return directory_.path; }
  std::filesystem::path data() const { return directory_.path / "data"; }
  /// What to name as the host.
  std::filesystem::path socket_directory() const { return directory_.path / "socket"; }
  /// The last lines of what the server and initdb said.
  std::string log_tail(int lines = 20) const;

 private:
  // Made first and removed last. A process that forked from ours and runs our destructors removes nothing.
  struct Directory {
    Directory();
    ~Directory();
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
    std::filesystem::path path;
    pid_t owner;
  };

  Command command(std::string_view program, std::vector<std::string> arguments) const;
  void make_cluster();
  void make_directory(const std::filesystem::path& path) const;
  bool wait_until_ready(SteadyTime deadline, std::string& reason);
  pg::Connection administrator(SteadyTime deadline) const;
  [[noreturn]] void fail(const std::string& what) const;

  const std::filesystem::path programs_;
  const std::optional<Account> account_;
  Directory directory_;
  std::map<std::string, std::string> settings_;
  const std::vector<std::string> environment_;
  std::unique_ptr<ChildProcess> postmaster_;
};

}  // namespace ff::testserver
