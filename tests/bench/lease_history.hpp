#pragma once

#include <vector>

#include "bench/bench.hpp"
#include "bench/regime.hpp"

namespace ff::bench {

/// Reading the lease history beside FlowFabric's way:
///
/// "lease_replay": a subscription from the beginning of one partition, from subscribing to the last event's
/// being consumed, and by how much the process grew (its largest resident size less that before it
/// subscribed). "lease_spread": the same number of events dealt out over 32 partitions, each with its own
/// subscription and consumer. "lease_latency": from the moment that a producer is told that its COMMIT
/// succeeded to that in which the consumer holds the event, by the machine's monotonic clock and of the
/// events that came; of eight producers, each event in its own transaction. (The server wakes the listeners
/// before it answers: a few may be negative.)
///
/// Opens up to 65 connections at once. Throws std::runtime_error when an event came twice, in the wrong order
/// or not at all; FlowFabric's may miss some that commit out of order, those are counted. No other thread of
/// this process may be at work: the replays happen in copies of it.
std::vector<Regime> measure_lease_history(const Bench& bench);

}  // namespace ff::bench
