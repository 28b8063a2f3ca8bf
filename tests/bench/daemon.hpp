#pragma once

#include <string>

#include "support/metrics_text.hpp"
#include "support/process.hpp"

namespace ff::bench {

/// The real daemon, as its own process beside us. Everything that the configuration does not say has its default, but
/// recovery_grace is 0, because the server has not been away, and storm control is off.
class Daemon {
 public:
  /// Ready when this returns. `config`: more YAML. Throws std::runtime_error with the daemon's log.
  explicit Daemon(const std::string& conninfo, const std::string& config = {});

  pid_t pid() { return running_.process().pid(); }
  /// What /metrics says. Throws std::runtime_error when the answer is not 200.
  std::string metrics();
  /// How many rows it has moved, all reconcilers together or one of them.
  std::int64_t processed(const std::string& reconciler = {});

  /// Throws std::runtime_error when it counted an error, or when it does not end with 0 on SIGTERM.
  void stop();

 private:
  test::RunningDaemon running_;
};

std::int64_t processed_rows(const std::string& metrics, const std::string& reconciler = {});

}  // namespace ff::bench
