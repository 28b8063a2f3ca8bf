#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/partition_choice.hpp"
#include "base/time.hpp"
#include "check/line.hpp"
#include "pg/connection.hpp"

namespace ff::check {

/// Sessions of daemons that say the same of themselves, from one place.
struct Replicas {
  std::string version;
  std::string partitions;  ///< as it was configured; a list that was too long ends in ",+"
  std::string place;       ///< an address, or "this machine"
  int sessions = 0;
};

/// What a daemon calls its sessions: "ff-reconcilerd 1.0.0 0-63,128". A server cuts off what is longer than 63 bytes, so
/// a longer list of partitions ends in ",+".
std::string session_name(std::string_view version, const PartitionChoice& choice);

/// By pg_stat_activity, without those of whose sessions none has done anything for a minute, or `quiet`; where that is not for
/// this role to see, with them. Throws pg::Error.
std::vector<Replicas> replicas(pg::Connection& connection, std::optional<Milliseconds> quiet = {});

/// The roles of daemons' sessions that may not read this table beside FlowFabric's. Throws pg::Error.
std::vector<std::string> roles_that_may_not_read(pg::Connection& connection, std::string_view table);

/// replicas: that there are some, of one version, and that each of so many partitions is looked after by one of them.
Lines replicas(const std::vector<Replicas>& seen, int partition_count);

}  // namespace ff::check
