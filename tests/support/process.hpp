#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"

namespace ff::test {

/// Asks every few milliseconds until `holds` is true; false when the time is over.
bool wait_until(const std::function<bool()>& holds, Milliseconds at_most = Milliseconds{30'000},
                Milliseconds each = Milliseconds{10});

/// Throws std::system_error for `errno`.
[[noreturn]] void fail(const std::string& what);

/// A directory that is removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Writes (or replaces) a file in it and returns the file's path.
  std::string write(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

using Environment = std::map<std::string, std::string>;

/// A program that runs beside the test, with what it writes kept in memory. It inherits our environment but
/// for what the daemon itself would read (FF_*, PG*, NOTIFY_SOCKET, WATCHDOG_*, JOURNAL_STREAM). It is killed
/// with the object, and with the thread that made it. Not thread-safe.
class Process {
 public:
  /// `command`: the program (looked up in PATH) and its arguments. Throws std::system_error.
  explicit Process(const std::vector<std::string>& command, const Environment& environment = {},
                   const std::string& input = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  bool running();
  /// Ignored when it has ended.
  void signal(int number);

  /// How it ended: the exit code, or 128 + the signal's number as a shell says it. Nothing: it runs still.
  std::optional<int> wait(Milliseconds at_most = Milliseconds{60'000});

  /// What it has written so far, from its byte `from` on, which it must have written already.
  std::string out(std::size_t from = 0) const;
  std::string err() const;
  bool err_has(const std::string& text) const { return err().find(text) != std::string::npos; }

 private:
  void reap(int options);

  int out_;
  int err_;
  pid_t pid_ = -1;
  std::optional<int> ended_;
};

/// A program that has ended.
struct Ended {
  int code = -1;
  std::string out;
  std::string err;
};
/// Throws std::runtime_error when it takes longer than a minute.
Ended run(const std::vector<std::string>& command, const Environment& environment = {},
          const std::string& input = {});
/// The same for the binary under test.
Ended run_binary(std::vector<std::string> arguments, const Environment& environment = {});

/// For commands over one group of partitions, unless it says already over which: each group has the same statements.
Environment over_one_group(Environment environment);

/// `ff-reconcilerd run` with a configuration file of its own, listening on a free port.
class RunningDaemon {
 public:
  struct Options {
    std::string conninfo;
    std::string config = {};  ///< YAML, beside `http` which is given
    Environment environment = {};
    std::string program = {};  ///< empty: the binary under test
  };
  explicit RunningDaemon(const Options& options);

  Process& process() { return process_; }
  /// Replaces the configuration file; the daemon does not know of it yet.
  void rewrite_config(const std::string& config);

  /// The port from its log; throws std::runtime_error with the log when it does not come up.
  unsigned short port();
  struct Reply {
    int status = 0;
    std::string body;
  };
  /// What is true now: what a daemon keeps for a moment is asked for again only once that has passed.
  Reply get(const std::string& path);
  bool ready() { return get("/readyz").status == 200; }
  /// Asks every millisecond. Throws std::runtime_error with the log when it is not ready in time, or has ended.
  void wait_until_ready();
  /// `state` of /readyz.
  std::string state();
  /// The value of a sample of /metrics by its name with labels, or NaN when there is none.
  double metric(const std::string& sample);

  /// SIGTERM, then wait.
  std::optional<int> stop();

 private:
  bool knows_port();

  TemporaryDirectory directory_;
  std::string config_file_;
  Process process_;
  unsigned short port_ = 0;
  std::map<std::string, SteadyTime> heard_;  // when what is kept was last heard, by path
};

}  // namespace ff::test
