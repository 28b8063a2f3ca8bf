#include "faults/replicas.hpp"

#include <algorithm>
#include <csignal>
#include <stdexcept>

#include "support/metrics_text.hpp"

namespace ff::faults {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

}  // namespace

Replicas::Replicas(Options options) : options_(std::move(options)) {
  for (int replica = 0; replica < kReplicas; ++replica) start(replica);
  wait_until_ready();
}

void Replicas::start(int replica, const test::Environment& environment) {
  replicas_.at(static_cast<std::size_t>(replica)) = std::make_unique<test::RunningDaemon>(
      test::RunningDaemon::Options{.conninfo = options_.conninfo(replica),
                                   .config = options_.config,
                                   .environment = environment,
                                   .program = replica == kReplicas - 1 ? options_.another : std::string{}});
}

void Replicas::wait_until_ready() {
  for (auto& replica : replicas_)
    if (!test::wait_until([&] { return replica->ready(); }))
      throw std::runtime_error("a replica is not ready: " + replica->process().err());
}

void Replicas::kill(int replica) {
  process(replica).signal(SIGKILL);
  process(replica).wait();
  start(replica);
}

Milliseconds Replicas::stop(int replica) {
  const SteadyTime asked = Clock::system().now();
  const auto ended = at(replica).stop();
  const auto took = std::chrono::duration_cast<Milliseconds>(Clock::system().now() - asked);
  if (ended != 0) throw std::runtime_error("a replica did not end well: " + process(replica).err());
  return took;
}

double Replicas::last_success(int replica) {
  double last = 0;
  test::each_sample(metrics(replica), "ff_reconciler_last_success_timestamp_seconds",
                    [&](const std::string&, double value) { last = std::max(last, value); });
  return last;
}

Footprint Replicas::footprint(int replica) {
  const std::string all = metrics(replica);
  return {.descriptors = test::metric_sum(all, "process_open_fds"),
          .resident_mib = test::metric_sum(all, "process_resident_memory_bytes") / kMib};
}

}  // namespace ff::faults
