#include "demo/simulation/signal_sender.hpp"

namespace ff::simulation {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kBetween = 100ms;

}  // namespace

void SignalSender::live() {
  while (!workload_.finishing_) {
    for (const ExecutionId& execution : workload_.answers_due()) answer(execution);
    if (!workload_.pause(kBetween)) return;
  }
}

// Who is answered too late has been dealt with by its time-out, and has no waitpoint left.
void SignalSender::answer(const ExecutionId& execution) {
  for (const Waitpoint& waitpoint : waitpoints_of(connection_, execution)) {
    if (waitpoint.key != kAnswered) continue;
    if (deliver_signal(connection_, execution, waitpoint) != Delivery::satisfied) continue;
    workload_.ledger_.answered(execution);
    workload_.tell(to_string(execution.uuid).substr(0, 8) + " got its answer and goes on");
  }
}

}  // namespace ff::simulation
