#include "bench/machine.hpp"

#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <cerrno>
#include <fstream>
#include <system_error>
#include <thread>

namespace ff::bench {
namespace {

constexpr Milliseconds kConnectTime{10'000};

constexpr std::string_view kSettings = R"sql(
SELECT string_agg(name || ' ' || current_setting(name), ', ' ORDER BY place)
  FROM unnest(ARRAY['fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'max_wal_size',
                    'checkpoint_timeout', 'autovacuum']) WITH ORDINALITY AS _(name, place))sql";

std::string processor_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return {};
}

}  // namespace

Machine this_machine(const pg::Connector& connector) {
  auto connection = connector.connect(Clock::system().now() + kConnectTime);
  struct sysinfo memory {};
  utsname system{};
  if (::sysinfo(&memory) != 0 || ::uname(&system) != 0)
    throw std::system_error(errno, std::generic_category(), "the machine's description");
  return {.processors = std::thread::hardware_concurrency(),
          .processor = processor_model(),
          .memory_gib = static_cast<double>(memory.totalram) * memory.mem_unit / (1UL << 30),
          .kernel = std::string(system.sysname) + " " + system.release,
          .postgresql = connection.execute("SHOW server_version").one().get<std::string>(0),
          .settings = connection.execute(kSettings).one().get<std::string>(0)};
}

}  // namespace ff::bench
