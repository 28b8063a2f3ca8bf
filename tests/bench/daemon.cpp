#include "bench/daemon.hpp"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace ff::bench {
namespace {

std::string with_ours(const std::string& config) {
  const bool says_storm = config.find("storm:") != std::string::npos;
  return "recovery_grace: 0s\n" + std::string(says_storm ? "" : "storm: off\n") + config;
}

}  // namespace

Daemon::Daemon(const std::string& conninfo, const std::string& config)
    : running_({.conninfo = conninfo, .config = with_ours(config)}) {
  running_.wait_until_ready();
}

std::string Daemon::metrics() {
  const auto [status, body] = running_.get("/metrics");
  if (status != 200) throw std::runtime_error(fmt::format("/metrics answers {}", status));
  return body;
}

std::int64_t Daemon::processed(const std::string& reconciler) {
  return processed_rows(metrics(), reconciler);
}

void Daemon::stop() {
  const double errors = test::metric_sum(metrics(), "ff_reconciler_errors_total");
  if (errors != 0) throw std::runtime_error(fmt::format("the daemon counted {} errors", errors));
  if (running_.stop() != 0)
    throw std::runtime_error("the daemon was asked to stop and did not end well: " +
                             running_.process().err());
}

std::int64_t processed_rows(const std::string& metrics, const std::string& reconciler) {
  const std::string labels = reconciler.empty() ? "" : fmt::format("reconciler=\"{}\"", reconciler);
  return std::llround(test::metric_sum(metrics, "ff_reconciler_processed_total", labels));
}

}  // namespace ff::bench
