#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "support/process.hpp"

namespace ff::faults {

constexpr int kReplicas = 3;
constexpr Milliseconds kShutdownGrace{2'000};
constexpr Milliseconds kShutdownLimit = kShutdownGrace + Milliseconds{5'000};
constexpr int kPoolSize = 8;

/// What a replica holds of the machine.
struct Footprint {
  double descriptors = 0;
  double resident_mib = 0;
};

/// Three daemons over one database. Not thread-safe, and to be used by the thread that made it.
class Replicas {
 public:
  struct Options {
    std::function<std::string(int replica)> conninfo;
    std::string config;  ///< YAML, beside `http`
    /// What the last of them runs: another version, say. Empty: the binary under test, as the others.
    std::string another = {};
  };
  /// All are ready when this returns. Throws std::runtime_error with the log of one that does not become so.
  explicit Replicas(Options options);

  test::Process& process(int replica) { return at(replica).process(); }
  /// SIGKILL, and another one in its place, which is perhaps not ready yet.
  void kill(int replica);
  /// SIGTERM, and how long it took to end. Throws std::runtime_error unless it ends with 0.
  Milliseconds stop(int replica);
  /// In the place of one that has ended.
  void start(int replica, const test::Environment& environment = {});
  /// Throws std::runtime_error when one of them is not within half a minute.
  void wait_until_ready();

  /// When the last successful tick of any reconciler ended, by the replica's own clock; 0: none did, or it does not
  /// answer.
  double last_success(int replica);
  Footprint footprint(int replica);
  std::string metrics(int replica) { return at(replica).get("/metrics").body; }

 private:
  test::RunningDaemon& at(int replica) { return *replicas_.at(static_cast<std::size_t>(replica)); }

  const Options options_;
  std::array<std::unique_ptr<test::RunningDaemon>, kReplicas> replicas_;
};

}  // namespace ff::faults
