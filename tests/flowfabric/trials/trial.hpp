#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/process.hpp"
#include "world.hpp"

/// What a reconciler promises beside FlowFabric's real writers, tried as often as is asked for by `./dev conformance
/// --trials`.
namespace ff::test::trials {

/// How often, and in which form.
struct Scale {
  int count = 0;
  bool is_long = false;
};

/// What came of it.
struct Seen {
  std::string figures;              ///< in one line
  std::vector<std::string> faults;  ///< what was promised and does not hold
  void expect(bool holds, const std::string& otherwise) {
    if (!holds) faults.push_back(otherwise);
  }
};

struct Trial {
  const char* name;  ///< of the reconciler
  int few;           ///< the count in CI; 0: not there
  int many;          ///< the count of the long form
  Seen (*run)(World& world, const Scale& scale);
};

/// How late things came, each in ms.
class Lateness {
 public:
  void add(std::int64_t ms) { all_.push_back(ms); }
  void add(const Lateness& other) { all_.insert(all_.end(), other.all_.begin(), other.all_.end()); }
  std::int64_t most() const { return all_.empty() ? 0 : std::ranges::max(all_); }
  std::int64_t of_99_in_100() const { return at(0.99); }
  std::string text() const {
    if (all_.empty()) return "never late";
    return fmt::format("{} ms late in the median, {} ms in 99 of 100, {} ms at most", at(0.5), at(0.99),
                       most());
  }

 private:
  std::int64_t at(double share) const {
    std::vector<std::int64_t> sorted = all_;
    std::ranges::sort(sorted);
    return sorted.empty() ? 0
                          : sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
  }
  std::vector<std::int64_t> all_;
};

/// For daemons: all is as it is by default, but that only these partitions are looked at.
constexpr const char* kSixteenPartitions = "partitions: 0-15\n";
constexpr int kDaemonPartitions = 16;

/// Throws when the daemon does not become ready.
inline void wait_until_ready(RunningDaemon& daemon) {
  if (!wait_until([&] { return daemon.ready(); }, Milliseconds{120'000}))
    throw std::runtime_error("the daemon is not ready: " + daemon.process().err());
}

// Each in a file of its own.
Seen grants(World& world, const Scale& scale);
Seen deaths(World& world, const Scale& scale);
Seen groups(World& world, const Scale& scale);
Seen indexes(World& world, const Scale& scale);
Seen backlogs(World& world, const Scale& scale);
Seen retention(World& world, const Scale& scale);
Seen quotas(World& world, const Scale& scale);

}  // namespace ff::test::trials
