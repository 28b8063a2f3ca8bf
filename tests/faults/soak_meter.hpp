#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "faults/world.hpp"

namespace ff::faults {

/// What one replica holds at one moment.
struct Held {
  double resident_mib = 0;
  double descriptors = 0;
  int threads = 0;
};

/// Sums since the beginning over all replicas, also over those that were killed: what one counted after the last
/// sample before its end is lost.
struct Sums {
  std::map<std::string, double> moved{};   ///< by reconciler
  std::map<std::string, double> errors{};  ///< by class
  /// By reconciler: rows not later than so many seconds, as a histogram has them.
  std::map<std::string, std::map<double, double>> late{};
  double wal_bytes = 0;
  double commits = 0;
  double database_bytes = 0;  ///< tables and indexes; not a sum

  double all_moved() const;
};

struct Sample {
  double at = 0;  ///< seconds since the beginning
  std::array<Held, kReplicas> held{};
  Sums sums{};
};

/// Takes samples of a world, and adds up what its replicas count from 0 again when they are started again.
class Meter {
 public:
  explicit Meter(World& world);

  Sample take();

 private:
  void read_replica(int replica, Sample& sample);
  void read_server(Sample& sample);

  World& world_;
  pg::Connection db_;
  const SteadyTime begun_;
  Sums sums_{};
  std::array<std::map<std::string, double>, kReplicas> last_{};  // counters as last read
  std::array<pid_t, kReplicas> pids_{};
  double first_wal_ = 0;
  double first_commits_ = 0;
};

/// The lateness in seconds that this share of the rows between two samples did not exceed, within the bucket that it is
/// in by proportion; 0: there were none. Of one reconciler, or of all whose rows say when they fell due: the others
/// count them as due since they were seen, to half a minute.
double lateness(const Sample& from, const Sample& to, double share, const std::string& reconciler = {});
/// Of all but these.
double lateness_but(const Sample& from, const Sample& to, double share,
                    const std::set<std::string>& left_out);

}  // namespace ff::faults
