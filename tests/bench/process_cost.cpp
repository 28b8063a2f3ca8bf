#include "bench/process_cost.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>

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

double mib_grown_by(const std::function<void()>& work) {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // the largest size is that of now
  const double before = mib_of(::getpid(), "VmRSS");
  work();
  return mib_of(::getpid(), "VmHWM") - before;
}

}  // namespace ff::bench
