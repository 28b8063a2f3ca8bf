#include "bench/process_cost.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

namespace ff::bench {
namespace {

double seconds_of(clockid_t clock) {
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) throw std::runtime_error("a process has ended that was measured");
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::optional<clockid_t> clock_of(pid_t pid) {
  clockid_t clock{};
  if (::clock_getcpuclockid(pid, &clock) != 0) return std::nullopt;
  return clock;
}

// What /proc/PID/stat says that matters here.
struct Stat {
  pid_t parent = 0;
  double seconds_of_ended_children = 0;
};

std::optional<Stat> stat_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text(std::istreambuf_iterator<char>(file), {});
  const auto name_ends = text.rfind(')');  // a name may contain anything
  if (name_ends == std::string::npos) return std::nullopt;
  // From here on: state, parent, nine words, own user and system time, that of the children.
  std::istringstream words(text.substr(name_ends + 1));
  std::string skipped;
  Stat stat;
  words >> skipped >> stat.parent;
  for (int i = 0; i < 11; ++i) words >> skipped;
  double user = 0;
  double system = 0;
  words >> user >> system;
  if (!words) throw std::runtime_error(fmt::format("/proc/{}/stat cannot be read", pid));
  stat.seconds_of_ended_children = (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return stat;
}

bool is_number(const std::string& name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

double cpu_seconds_of(pid_t pid) {
  const auto clock = clock_of(pid);
  if (!clock) throw std::runtime_error(fmt::format("there is no process {}", pid));
  return seconds_of(*clock);
}

double cpu_seconds_of_this_thread() {
  return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

double most_resident_mib_of(pid_t pid) {
  constexpr std::string_view kName = "VmHWM:";
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(kName)) return std::stod(line.substr(kName.size())) / 1024;
  throw std::runtime_error(fmt::format("process {} does not say how much memory it took", pid));
}

double cpu_seconds_of_server(testserver::PrivateServer& server) {
  const pid_t postmaster = server.pid().value();
  double sum = cpu_seconds_of(postmaster);
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (!is_number(name)) continue;
    const auto pid = static_cast<pid_t>(std::stol(name));
    const auto stat = stat_of(pid);
    if (!stat || stat->parent != postmaster) continue;
    // One that ends right now is missing here and counted below.
    timespec time{};
    if (const auto clock = clock_of(pid); clock && ::clock_gettime(*clock, &time) == 0)
      sum += static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  return sum + stat_of(postmaster).value().seconds_of_ended_children;
}

}  // namespace ff::bench
