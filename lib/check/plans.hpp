#pragma once

#include <set>
#include <string>
#include <vector>

#include "pg/connection.hpp"
#include "reconcile/reconciler.hpp"
#include "reconcile/scope.hpp"

namespace ff::check {

/// How the server would run the statements of a pair.
struct Plans {
  std::set<std::string> wholly_read;  ///< large tables that its scan reads from one end to the other
  std::set<std::string> indexes;  ///< that its scan looks into, hash children under the name of their table's
  int most_locks = 0;             ///< on tables and indexes, in one of its transactions

  void add(const Plans& other);
};

/// Asks for the plans of its scan and its act over all partitions of the scope, without running any. Each question is a
/// transaction by itself that is rolled back: the locks that planning takes are gone after some milliseconds. Throws
/// pg::Error, also where a privilege is missing.
Plans plans_of(pg::Connection& connection, const reconcile::Reconciler& pair, const reconcile::Scope& scope);

/// The indexes that lead this reconciler to what is due, of large tables, and are not among those that its plans use:
/// they are missing, or the table's statistics are stale. Of a small table any plan is as good. Throws pg::Error.
std::vector<reconcile::Lead> unused(pg::Connection& connection, const reconcile::Reconciler& reconciler,
                                    const std::set<std::string>& used);

}  // namespace ff::check
