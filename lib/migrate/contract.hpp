#pragma once

#include <string>
#include <vector>

#include "pg/connection.hpp"

namespace ff::migrate {

/// Where a database differs from what the reconcilers need; each entry is one sentence without a full stop.
struct Differences {
  /// Statements would fail: a table, column, type, primary key or hash child is not as needed.
  std::vector<std::string> problems;
  /// Everything works, but slowly or late: an index or a notify trigger is missing, or another than is needed.
  std::vector<std::string> warnings;
};

/// Compares the catalog with the schema contract. Reads only; six statements. Throws pg::Error.
Differences compare_with_contract(pg::Connection& connection);

/// What is missing, and the statements that make it, for whoever owns the tables.
struct Missing {
  std::string sentence;
  std::string next;
};

/// Tables such as ours that the session does not find: a privilege is missing, their schema is not on the search_path of the role,
/// or a table of that name stands before it. Not within a transaction, whose search_path is our own.
std::vector<Missing> tables_elsewhere(pg::Connection& connection);

/// Of the contract's indexes, of which there are so many; also of those that are on other columns or rows.
std::vector<Missing> missing_indexes(pg::Connection& connection);
std::size_t wanted_indexes();
/// Of the triggers that announce events.
std::vector<Missing> missing_triggers(pg::Connection& connection);

}  // namespace ff::migrate
