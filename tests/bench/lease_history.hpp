#pragma once

#include <cstdint>

#include "base/time.hpp"
#include "pg/connect.hpp"

namespace ff::bench {

/// How well one way of reading the lease history does.
struct ReaderFigures {
  /// A subscription from the beginning of one partition, from subscribing to the last event's being consumed.
  double replay_events_per_second = 0;
  /// The same number of events dealt out over 32 partitions, each with its own subscription and consumer.
  double spread_events_per_second = 0;
  /// By how much the process grew while it replayed the one partition: its largest resident size less that
  /// before it subscribed.
  double resident_mib = 0;
  /// From the moment that a producer is told that its COMMIT succeeded to that in which the consumer holds
  /// the event, by the machine's monotonic clock and of the events that came. Of eight producers, each event
  /// in its own transaction. (The server wakes the listeners before it answers: a few may be negative.)
  double latency_p50_ms = 0;
  double latency_p99_ms = 0;
  /// What the producers of the latency's events reached: when it falls short of what was asked for, the
  /// machine was too slow.
  double committed_events_per_second = 0;
  /// Events that were committed and never delivered while latency was measured, in all rounds.
  std::int64_t missed = 0;
};

struct LeaseHistoryFigures {
  ReaderFigures ours;
  ReaderFigures seed;
};

struct LeaseHistoryOptions {
  int replay_events = 500'000;
  int events_per_second = 1000;
  Milliseconds latency_time{5000};
  int rounds = 3;
};

/// Measures our subscription beside FlowFabric's way of reading, in turns; every figure but `missed` is the median
/// of the rounds. The database is migrated and has no lease events; afterwards it has. Opens up to 65 connections at
/// once. Throws std::runtime_error when an event came twice, in the wrong order or not at
/// all; FlowFabric's may miss some that commit out of order, those are counted. No other thread of this
/// process may be at work: the replays happen in copies of it.
LeaseHistoryFigures measure_lease_history(const pg::Connector& connector, const LeaseHistoryOptions& options);

}  // namespace ff::bench
