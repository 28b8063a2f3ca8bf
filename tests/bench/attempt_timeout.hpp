#pragma once

#include <vector>

#include "pg/connect.hpp"

namespace ff::bench {

struct BacklogOptions {
  int rows = 20'000;
  int partitions = 256;
  /// Of ours; row by row has one.
  int connections = 2;
  int rounds = 3;
};

/// How fast a backlog was worked off in one round.
struct BacklogRound {
  double ours = 0;        ///< rows per second
  double row_by_row = 0;  ///< rows per second
  double ratio() const { return ours / row_by_row; }
};

/// attempt_timeout over a backlog of lapsed leases, beside FlowFabric's way, in turns. Our engine has looked
/// once before the clock starts, as one that has been running has: then the server knows its plan, which it
/// forgets when statistics are made anew. The database is migrated. Throws std::runtime_error when a row was
/// not moved.
std::vector<BacklogRound> measure_attempt_timeout(const pg::Connector& connector,
                                                  const BacklogOptions& options);

}  // namespace ff::bench
