#pragma once

#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"

namespace ff::testserver {

/// Whom a program runs as.
struct Account {
  std::string name;
  uid_t uid;
  gid_t gid;
};

struct Command {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  ///< "NAME=value"; nothing is inherited
  std::filesystem::path directory;       ///< where it runs
  std::filesystem::path output;          ///< standard output and error are appended to this file
  std::optional<Account> account;        ///< become this user first; only root can
  int death_signal = SIGKILL;            ///< what the child gets when its parent is no more: see ChildProcess
};

/// A program that runs beside us, in a session of its own, so that a signal from the terminal does not reach
/// it, with default signal handling and no file of ours but the output.
///
/// It does not outlive us, however we end: the kernel sends it `death_signal` when the THREAD that started it
/// ends. So start it on a thread that stays, normally the main thread.
///
/// One thread at a time. The destructor kills what still runs.
class ChildProcess {
 public:
  /// Throws std::runtime_error when the program cannot be started.
  explicit ChildProcess(const Command& command);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// Does nothing when it has ended.
  void send(int signal);
  /// Waits for its end, at most until the deadline; true: it has ended.
  bool wait_until(SteadyTime deadline);
  bool ended() { return wait_until(SteadyTime::min()); }
  bool succeeded() const { return ended_ && status_ == 0; }
  /// "exited with 1", "was killed by signal 9", "is running".
  std::string state() const;

 private:
  const pid_t pid_;
  bool ended_ = false;
  int status_ = 0;  // as waitpid gives it
};

}  // namespace ff::testserver
