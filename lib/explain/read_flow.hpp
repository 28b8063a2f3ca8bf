#pragma once

#include <string>
#include <string_view>

#include "explain/facts.hpp"
#include "pg/transaction.hpp"

namespace ff::explain {

/// What the execution waits for, and who waits for it; nothing where it belongs to no flow.
void read_flow(pg::Transaction& transaction, Facts& facts);

/// A statement with the phrases of reconcilers, of the one partition $1.
std::string of_one_partition(std::string_view text);

UnixMillis moment_of(const pg::Row& row, std::string_view column);
std::optional<UnixMillis> moment_if(const pg::Row& row, std::string_view column);

}  // namespace ff::explain
