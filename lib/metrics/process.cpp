#include "metrics/process.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "base/time.hpp"

namespace ff::metrics {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

struct Stat {
  double cpu_seconds;
  double start_after_boot;  // seconds
  double virtual_bytes;
  double resident_bytes;
};

std::optional<Stat> read_stat() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // The second field is the program's name in parentheses, which may itself contain blanks and parentheses.
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(name_end + 1));
  std::string ignored;
  for (int field = 3; field < 14; ++field) rest >> ignored;
  double user = 0;
  double system = 0;
  rest >> user >> system;  // fields 14 and 15
  for (int field = 16; field < 22; ++field) rest >> ignored;
  double start = 0;
  double virtual_bytes = 0;
  double resident_pages = 0;
  rest >> start >> virtual_bytes >> resident_pages;  // fields 22 to 24
  if (!rest) return std::nullopt;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  return Stat{(user + system) / ticks, start / ticks, virtual_bytes,
              resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE))};
}

// By the clock that the kernel counts it by, and not by /proc/stat, which a confined unit does not see.
std::optional<double> started_at() {
  const auto stat = read_stat();
  timespec now{};
  if (!stat || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return std::nullopt;
  const double up = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  return unix_seconds(Clock::system().wall()) - (up - stat->start_after_boot);
}

std::optional<double> count_open_fds() {
  std::error_code error;
  double open = 0;
  auto entry = std::filesystem::directory_iterator("/proc/self/fd", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) ++open;
  if (error) return std::nullopt;
  return open - 1;  // the listing's own
}

std::optional<double> max_fds() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  if (limit.rlim_cur == RLIM_INFINITY) return std::numeric_limits<double>::infinity();
  return static_cast<double>(limit.rlim_cur);
}

MetricFamily family(const char* name, const char* help, MetricType type, double value) {
  prometheus::ClientMetric metric;
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return {name, help, type, {metric}};
}

}  // namespace

ProcessCollector::ProcessCollector() : started_at_(started_at()) {}

std::vector<MetricFamily> ProcessCollector::Collect() const {
  std::vector<MetricFamily> all;
  if (const auto stat = read_stat()) {
    all.push_back(family("process_cpu_seconds_total", "Processor time used, user and system, in seconds.",
                         MetricType::Counter, stat->cpu_seconds));
    all.push_back(family("process_virtual_memory_bytes", "Size of the address space in bytes.",
                         MetricType::Gauge, stat->virtual_bytes));
    all.push_back(family("process_resident_memory_bytes", "Memory held in RAM in bytes.", MetricType::Gauge,
                         stat->resident_bytes));
  }
  if (started_at_)
    all.push_back(family("process_start_time_seconds", "When the process started, in Unix time.",
                         MetricType::Gauge, *started_at_));
  if (const auto open = count_open_fds())
    all.push_back(family("process_open_fds", "File descriptors in use.", MetricType::Gauge, *open));
  if (const auto most = max_fds())
    all.push_back(
        family("process_max_fds", "The most file descriptors that may be in use.", MetricType::Gauge, *most));
  return all;
}

}  // namespace ff::metrics
