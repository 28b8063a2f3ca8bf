#pragma once

#include <string>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "pg/connection.hpp"

namespace ff::simulation {

/// A worker's entry in FlowFabric's register.
struct Registration {
  std::string name_space;
  std::string worker;  ///< worker_id and worker_instance_id alike
  std::string lane;
  Milliseconds liveness{};
};

/// The register has 256 partitions of its own, by the FNV-1a hash of the worker_instance_id.
PartitionKey partition_of(const std::string& worker);

/// Enters it, or refreshes the entry. True: it was not there. Throws pg::Error.
bool enter(pg::Connection& connection, const Registration& registration);
/// False: it is not entered, or has been silent for longer than it may. Throws pg::Error.
bool send_heartbeat(pg::Connection& connection, const Registration& registration);

}  // namespace ff::simulation
