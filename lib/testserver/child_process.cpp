#include "testserver/child_process.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace ff::testserver {
namespace {

constexpr Milliseconds kPollInterval{2};

// A pipe whose ends close themselves: the child reports through it why it could not start. Success closes it
// without a word, by O_CLOEXEC.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0)
      throw std::system_error(errno, std::generic_category(), "pipe");
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void close_writer() { close_end(1); }

 private:
  void close_end(std::size_t i) {
    if (ends_[i] >= 0) ::close(ends_[i]);
    ends_[i] = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (const auto& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

// What the child needs, laid out before the fork: afterwards only async-signal-safe calls are allowed, for
// another thread may have held the allocator's lock.
struct Plan {
  const Command& command;
  std::vector<std::string> words;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  pid_t parent;
};

struct Failure {
  int error = 0;
  std::array<char, 16> step{};
};

[[noreturn]] void give_up(int report, const char* step) {
  Failure failure;
  failure.error = errno;
  std::strncpy(failure.step.data(), step, failure.step.size() - 1);
  // Nobody is left to be told when even this fails; the parent sees the exit status.
  [[maybe_unused]] const auto written = ::write(report, &failure, sizeof failure);
  ::_exit(127);
}

void default_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);  // fails for SIGKILL and the like
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

int above_standard(int fd) {
  return fd < 0 ? fd : ::fcntl(fd, F_DUPFD, 3);
}

// The descriptor that reports a failed start is moved to 3, everything above is closed.
int redirect(const Command& command, int report) {
  // Ours may be closed: then the first files that are opened get the numbers 0 to 2.
  const int input = above_standard(::open("/dev/null", O_RDONLY));
  const int output = above_standard(::open(command.output.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600));
  if (input < 0 || output < 0) give_up(report, "open");
  const int moved = above_standard(report);
  if (moved < 0 || ::dup2(input, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(output, 2) < 0)
    give_up(report, "dup2");
  constexpr int kReport = 3;
  if (moved != kReport && ::dup2(moved, kReport) < 0) give_up(moved, "dup2");
  ::fcntl(kReport, F_SETFD, FD_CLOEXEC);
  // Older kernels than 5.9 cannot; ours are opened with O_CLOEXEC anyway.
  ::close_range(kReport + 1, ~0U, 0);
  return kReport;
}

[[noreturn]] void become(const Plan& plan, int report) {
  const Command& command = plan.command;
  default_signals();
  ::setsid();
  report = redirect(command, report);
  if (command.account) {
    const Account& account = *command.account;
    if (::setgroups(1, &account.gid) != 0) give_up(report, "setgroups");
    if (::setgid(account.gid) != 0) give_up(report, "setgid");
    if (::setuid(account.uid) != 0) give_up(report, "setuid");
  }
  // After setuid, which clears it. A parent that was gone before this line is noticed by its number.
  if (::prctl(PR_SET_PDEATHSIG, command.death_signal) != 0) give_up(report, "prctl");
  if (::getppid() != plan.parent) ::_exit(127);
  if (::chdir(command.directory.c_str()) != 0) give_up(report, "chdir");
  ::execve(command.program.c_str(), plan.arguments.data(), plan.environment.data());
  give_up(report, "execve");
}

std::string as_whom(const Command& command) {
  return command.account ? " as " + command.account->name : "";
}

pid_t start(const Command& command) {
  Plan plan{command, {command.program.string()}, {}, pointers(command.environment), ::getpid()};
  plan.words.insert(plan.words.end(), command.arguments.begin(), command.arguments.end());
  plan.arguments = pointers(plan.words);

  Pipe pipe;
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) become(plan, pipe.writer());
  pipe.close_writer();
  Failure failure;
  ssize_t got = 0;
  do {
    got = ::read(pipe.reader(), &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return pid;
  ::waitpid(pid, nullptr, 0);
  throw std::runtime_error("cannot start " + command.program.string() + as_whom(command) + ": " +
                           failure.step.data() + ": " + std::generic_category().message(failure.error));
}

}  // namespace

ChildProcess::ChildProcess(const Command& command) : pid_(start(command)) {}

ChildProcess::~ChildProcess() {
  send(SIGKILL);
  wait_until(SteadyTime::max());
}

void ChildProcess::send(int signal) {
  // Until it is waited for, its number belongs to nobody else.
  if (!ended_) ::kill(pid_, signal);
}

bool ChildProcess::wait_until(SteadyTime deadline) {
  while (!ended_) {
    int status = 0;
    const pid_t got = ::waitpid(pid_, &status, WNOHANG);
    if (got == pid_) status_ = status;
    // ECHILD: the process ignores SIGCHLD, so the kernel has kept no status for us.
    ended_ = got == pid_ || (got < 0 && errno == ECHILD);
    if (ended_ || Clock::system().now() >= deadline) break;
    std::this_thread::sleep_for(kPollInterval);
  }
  return ended_;
}

std::string ChildProcess::state() const {
  if (!ended_) return "is running";
  if (WIFSIGNALED(status_)) return "was killed by signal " + std::to_string(WTERMSIG(status_));
  return "exited with " + std::to_string(WEXITSTATUS(status_));
}

}  // namespace ff::testserver
