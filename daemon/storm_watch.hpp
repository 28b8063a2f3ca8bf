#pragma once

#include <optional>
#include <string>

#include "base/partitions.hpp"
#include "base/scanner_filter.hpp"
#include "pg/connection.hpp"
#include "reconcile/storm.hpp"

namespace ff::daemon {

/// Counts, with a check of the database now and then, what storm control goes by: all leases, once a minute; and the
/// claims of the last ten seconds, while it matters how many they are. What fails is said once: what was counted before
/// stands. One thread at a time.
class StormWatch {
 public:
  /// `storm` and the clock must outlive this.
  StormWatch(reconcile::Storm& storm, const Clock& clock) : storm_(storm), clock_(clock) {}

  /// Does not throw.
  void poll(pg::Connection& connection, const Partitions& partitions, const ScannerFilter& filter);

 private:
  void count_leases(pg::Connection& connection, const Partitions& partitions, const ScannerFilter& filter);
  void count_claims(pg::Connection& connection);

  struct Mark {
    std::int64_t event = 0;
    SteadyTime at;
  };
  reconcile::Storm& storm_;
  const Clock& clock_;
  std::optional<SteadyTime> leases_counted_at_;
  std::optional<Mark> claims_from_;
  std::string why_uncounted_;  // as logged
};

}  // namespace ff::daemon
