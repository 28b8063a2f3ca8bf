#include "bench/process_cost.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <fstream>
#include <iterator>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "support/process.hpp"

namespace ff::bench {
namespace {

std::optional<double> seconds_of(clockid_t clock) {
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) return std::nullopt;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Nothing: it has ended.
std::optional<double> seconds_of_process(pid_t pid) {
  clockid_t clock{};
  return ::clock_getcpuclockid(pid, &clock) == 0 ? seconds_of(clock) : std::nullopt;
}

double seconds_of_ended_children(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  // Behind the name, which may contain anything: twelve words, own user and system time, that of the children.
  std::istringstream words(text.substr(text.rfind(')') + 1));
  std::string skipped;
  for (int i = 0; i < 13; ++i) words >> skipped;
  double user = 0, system = 0;
  words >> user >> system;
  if (!words) throw std::runtime_error(fmt::format("/proc/{}/stat cannot be read", pid));
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

struct Answer {
  bool complete;
  Effort effort;
  char error[500];
};

// Ends without any destructor: what the copy holds belongs to the original.
[[noreturn]] void give(Answer& answer, const std::function<Effort()>& work) {
  try {
    answer.effort = work();
    answer.complete = true;
  } catch (const std::exception& error) {
    std::string(error.what()).copy(answer.error, sizeof answer.error - 1);
  }
  ::_exit(EXIT_SUCCESS);
}

}  // namespace

double cpu_seconds_of(pid_t pid) {
  const auto seconds = seconds_of_process(pid);
  if (!seconds) throw std::runtime_error(fmt::format("there is no process {}", pid));
  return *seconds;
}

double cpu_seconds_of_this_thread() {
  return seconds_of(CLOCK_THREAD_CPUTIME_ID).value();
}

double mib_of(pid_t pid, const std::string& what) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(what + ':')) return std::stod(line.substr(what.size() + 1)) / 1024;
  throw std::runtime_error(fmt::format("/proc/{}/status has no line {}", pid, what));
}

double cpu_seconds_of_server(testserver::PrivateServer& server) {
  const pid_t postmaster = server.pid().value();
  double sum = cpu_seconds_of(postmaster);
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", postmaster));
  // One that ends right now is missing here and counted below.
  for (pid_t child = 0; children >> child;) sum += seconds_of_process(child).value_or(0);
  return sum + seconds_of_ended_children(postmaster);
}

Effort in_own_process(const std::function<Effort()>& work) {
  // Free memory that the copy inherits would hide its growth.
  ::malloc_trim(0);
  void* const shared =
      ::mmap(nullptr, sizeof(Answer), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) test::fail("mmap");
  auto* const place = new (shared) Answer{};
  const pid_t child = ::fork();
  if (child < 0) test::fail("fork");
  if (child == 0) give(*place, work);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) test::fail("waitpid");
  const Answer answer = *place;
  ::munmap(shared, sizeof(Answer));
  if (!answer.complete)
    throw std::runtime_error(fmt::format("the measuring process failed: {} (status {})",
                                         static_cast<const char*>(answer.error), status));
  return answer.effort;
}

}  // namespace ff::bench
