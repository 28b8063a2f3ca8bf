#pragma once

#include <string>
#include <vector>

#include "pg/connection.hpp"

namespace ff::migrate {

/// Where a database differs from what the reconcilers need; each entry is one sentence without a full stop.
struct Differences {
  /// Statements would fail: a table, column, type, primary key or hash child is not as needed.
  std::vector<std::string> problems;
  /// Everything works, but slowly or late: an index or a notify trigger is missing.
  std::vector<std::string> warnings;
};

/// Compares the catalog with the schema contract. Reads only; five statements. Throws pg::Error.
Differences compare_with_contract(pg::Connection& connection);

}  // namespace ff::migrate
