#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "demo/simulation/granted_worker.hpp"
#include "demo/simulation/worker.hpp"
#include "pg/connection.hpp"
#include "support/flowfabric.hpp"

/// The same steps by the real FlowFabric and by the simulation, each on an empty database that FlowFabric's own
/// migrations made, and what they leave there, row by row.
namespace ff::test {

/// One execution on one side.
struct Subject {
  ExecutionId id;
  Json name;  ///< "{fp:3}:uuid"
};

/// The real one.
class RealSide {
 public:
  FlowFabric& flowfabric() { return database_.flowfabric(); }
  pg::Connection& db() { return db_; }
  Json call(std::string_view operation, Json arguments = Json::object()) {
    return flowfabric().call(operation, std::move(arguments));
  }
  /// What the simulation's create() makes, in partition 3.
  Subject create(Json more = Json::object());
  /// The subject, claimed by handle as "h".
  Subject claimed(Json more = Json::object());
  Json claim();

 private:
  FlowFabricDatabase database_;
  pg::Connection db_ = database_.connect();
};

/// The simulated one.
class SimulatedSide {
 public:
  pg::Connection& db() { return db_; }
  simulation::Worker worker{db_, "w1", kLease};
  simulation::GrantedWorker granted{db_, "w1", kLease};

  ExecutionId create(simulation::NewExecution like = {});
  simulation::Claim claimed(const simulation::NewExecution& like = {});

  static constexpr Milliseconds kLease{60'000};

 private:
  FlowFabricDatabase database_;
  pg::Connection db_{database_.connect()};
};

/// Every row of every table that FlowFabric writes, one line a row: "table {column: value}", sorted, the outboxes in
/// their own order. Ids, tokens and hashes are masked, times are classes: "now", "now+60s" and so on.
std::vector<std::string> masked_rows(pg::Connection& db);

/// Does both, one after the other, and returns the differences: "- " what only the real one left, "+ " what only the
/// simulation did.
std::vector<std::string> differences(const std::function<void(RealSide&)>& real,
                                     const std::function<void(SimulatedSide&)>& simulated);

}  // namespace ff::test
