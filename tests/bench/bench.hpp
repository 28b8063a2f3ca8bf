#pragma once

#include <string>
#include <vector>

#include "bench/findings.hpp"
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

// The measurements. main.cpp says in a word what each is about; regimes.yaml describes the regimes that it finds.

std::vector<Findings> measure_dense(const Bench& bench);
std::vector<Findings> measure_sparse(const Bench& bench);
std::vector<Findings> measure_skewed(const Bench& bench);
std::vector<Findings> measure_growth(const Bench& bench);
std::vector<Findings> measure_replicas(const Bench& bench);

/// Every reconciler but attempt_timeout. Before anything is timed, each way works off the same small backlog in a database
/// apart, and all have to leave the same rows.
std::vector<Findings> measure_family(const Bench& bench);

/// Where `./dev conformance` has not built FlowFabric's part, it says so and measures nothing.
std::vector<Findings> measure_flowfabric(const Bench& bench);

/// The server has to run with track_commit_timestamp on.
std::vector<Findings> measure_lateness(const Bench& bench);

std::vector<Findings> measure_idle(const Bench& bench);
std::vector<Findings> measure_size(const Bench& bench);
std::vector<Findings> measure_partitions(const Bench& bench);
std::vector<Findings> measure_ten_million(const Bench& bench);
std::vector<Findings> measure_memory(const Bench& bench);
std::vector<Findings> measure_ready(const Bench& bench);
std::vector<Findings> measure_gentle(const Bench& bench);
std::vector<Findings> measure_storm(const Bench& bench);
std::vector<Findings> measure_retention(const Bench& bench);

/// Opens up to 65 connections at once. Throws std::runtime_error when an event came twice, in the wrong order or not at
/// all; FlowFabric's may miss some that commit out of order, those are counted.
std::vector<Findings> measure_lease_history(const Bench& bench);

}  // namespace ff::bench
