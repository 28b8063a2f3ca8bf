#pragma once

#include <memory>
#include <string>

#include "base/time.hpp"
#include "support/metrics_text.hpp"
#include "support/process.hpp"
#include "testserver/child_process.hpp"

namespace ff::bench {

using test::metric_sum;

/// The real daemon, as its own process beside us: `ff-reconcilerd run` with a configuration file of its own
/// in a temporary directory, on a free port. Everything that the configuration does not say has its default,
/// but recovery_grace is 0, because the server has not been away, and storm control is off. Killed with the object, and with the thread that
/// made it.
class DaemonProcess {
 public:
  /// Starts it and returns at once. `config`: more YAML. Throws std::runtime_error.
  explicit DaemonProcess(const std::string& conninfo, const std::string& config = {});

  /// Asks every millisecond. Throws std::runtime_error with the end of the daemon's log when it is not ready
  /// in time or has ended.
  void wait_until_ready(Milliseconds at_most = Milliseconds{30'000});

  /// What /metrics says. Throws std::runtime_error when the answer is not 200.
  std::string metrics();

  /// User and system time of all its threads so far, in seconds.
  double cpu_seconds() const;
  /// The most that ever was in memory.
  double most_resident_mib() const;

  /// SIGTERM. Throws std::runtime_error unless it then ends with 0.
  void stop();

 private:
  std::string log() const;
  bool knows_port();
  bool ready();
  [[noreturn]] void fail(const std::string& what) const;

  test::TemporaryDirectory directory_;
  std::unique_ptr<testserver::ChildProcess> process_;
  unsigned short port_ = 0;  // 0: the daemon has not told it yet
};

/// How many rows the daemon has moved, all reconcilers together or one of them.
std::int64_t processed_rows(const std::string& metrics, const std::string& reconciler = {});

/// Throws std::runtime_error when the daemon counted an error.
void require_no_errors(const std::string& metrics);

}  // namespace ff::bench
