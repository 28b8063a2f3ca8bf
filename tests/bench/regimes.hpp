#pragma once

#include <vector>

#include "bench/figures.hpp"
#include "pg/connect.hpp"
#include "testserver/private_server.hpp"

namespace ff::bench {

/// What every measurement is given. The database is migrated with 256 hash children and has no rows when a
/// measurement starts; it leaves none behind.
struct Bench {
  testserver::PrivateServer& server;
  std::string database;
  const pg::Connector& connector;  ///< to that database over the Unix socket
  bool quick = false;              ///< few rows, one round: to see that it works, not to quote
  int rounds() const { return quick ? 1 : 3; }
  std::string conninfo() const { return server.conninfo(database); }
};

/// attempt_timeout over a backlog of lapsed leases in all partitions, beside row by row and the floor: "dense" over the
/// Unix socket, "dense_1ms" with a millisecond added to each round trip.
std::vector<Regime> measure_dense(const Bench& bench);

/// attempt_timeout where one lease has lapsed in each of the partitions, beside row by row.
std::vector<Regime> measure_sparse(const Bench& bench);

/// attempt_timeout over backlogs that are not as they should be, each beside the plain case of as many rows and row by
/// row: "skewed_one_partition", "skewed_locked" (somebody holds every other row) and "skewed_poison" (every hundredth
/// row cannot be changed).
std::vector<Regime> measure_skewed(const Bench& bench);

/// What a row of a backlog costs attempt_timeout, from ten thousand to a million lapsed leases: "growth".
std::vector<Regime> measure_growth(const Bench& bench);

/// attempt_timeout over one backlog by one, two and four replicas at once: "replicas".
std::vector<Regime> measure_replicas(const Bench& bench);

/// Every reconciler but attempt_timeout over a dense backlog of its own, a regime each: ours, row by row, and the floor
/// where there is one. Before anything is timed, each way works off the same small backlog in a database apart, and all
/// have to leave the same rows.
std::vector<Regime> measure_family(const Bench& bench);

/// Seven reconcilers beside FlowFabric's own scanners of the same name, each over one connection, on the same rows of a
/// database that FlowFabric's migrations made: a dense backlog, one due row in each partition, and nothing due. Where
/// `./dev conformance` has not built FlowFabric's part, it says so and measures nothing.
std::vector<Regime> measure_flowfabric(const Bench& bench);

/// How long after it fell due a row is committed, while 50 and 500 a second fall due at random moments that are known in
/// advance: the real daemon beside polling at an interval. The server has to run with track_commit_timestamp on.
std::vector<Regime> measure_lateness(const Bench& bench);

/// What it costs to find that nothing is due: the daemon with all its reconcilers over a million rows, beside
/// FlowFabric's way of looking and beside a server that nobody asks anything. Server and asker together.
std::vector<Regime> measure_idle(const Bench& bench);

/// The same of the daemon over millions: of executions that wait for a worker, and of suspended ones with their
/// waitpoints.
std::vector<Regime> measure_size(const Bench& bench);

/// The daemon, with its defaults, over a backlog of a million lapsed leases: how much memory it takes at most, and how
/// soon /metrics answers meanwhile. Two regimes from one run.
std::vector<Regime> measure_memory(const Bench& bench);

/// How long it takes from starting the daemon's process until /readyz says 200.
std::vector<Regime> measure_ready(const Bench& bench);

/// How long workers wait for a claim and for a renewal while a hundred thousand leases that have lapsed are worked off by
/// the daemon; beside that, while they just lie there, and while one bulk transaction expires them all.
std::vector<Regime> measure_gentle(const Bench& bench);

/// The same with storm control as it is by default, in pairs with nobody.
std::vector<Regime> measure_storm(const Bench& bench);

/// How long workers wait for a claim while executions end at a steady rate and execution_retention deletes as many, in
/// pairs with nobody; and how many are there beyond those that are young enough.
std::vector<Regime> measure_retention(const Bench& bench);

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
