#pragma once

#include <functional>

#include "base/partitions.hpp"
#include "base/scanner_filter.hpp"
#include "pg/connection.hpp"
#include "reconcile/groups.hpp"
#include "reconcile/storm.hpp"

namespace ff::reconcile {

/// All leases that there are in these partitions, of the executions that the filter asks for. Of more than ten thousand,
/// some groups of partitions are counted, and the leases scaled. Throws pg::Error.
Fleet count_leases(pg::Connection& connection, const Groups& groups, const ScannerFilter& filter);

/// The leases of active executions that have lapsed `holdoff` ago or longer, but after `after`, by their holders: of all
/// groups, or until `enough` says so of those that have been counted. Throws pg::Error.
LeasesOf count_lapsed(pg::Connection& connection, const Groups& groups, const ScannerFilter& filter,
                      Milliseconds holdoff, UnixMillis after,
                      const std::function<bool(const LeasesOf&)>& enough);

/// The newest lease event, and how many claims there are behind another one.
struct Claims {
  std::int64_t newest = 0;
  std::int64_t count = 0;
};
/// Without `after` none are counted. Throws pg::Error.
Claims count_claims(pg::Connection& connection, std::optional<std::int64_t> after);

}  // namespace ff::reconcile
