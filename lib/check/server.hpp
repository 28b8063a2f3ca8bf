#pragma once

#include "check/line.hpp"
#include "pg/connection.hpp"

/// What a server says of itself, and how it is reached. Each function reads only and throws pg::Error.
namespace ff::check {

/// writable, server_version. The words that target_session_attrs knows do not matter here: a server that takes no
/// writes is a problem.
Lines server(pg::Connection& connection);

/// The latter alone, by server_version_num and server_version. Asks nobody.
Line server_version(int number, const std::string& version);

/// tls: whether what the server sees of us is encrypted, where it is not on the same machine, and whether `sslmode`
/// makes sure who answers. Behind a pooler that is the pooler's own connection.
Lines encryption(pg::Connection& connection, std::string_view sslmode);

/// encoding: whether all that the database can hold can be sent to us.
Lines encoding(pg::Connection& connection);

/// autovacuum: on, and switched off for none of FlowFabric's tables.
Lines autovacuum(pg::Connection& connection);

/// statistics: of no table are they from when a hash child had a tenth of its rows, and fewer than so many. A planner that
/// knows of a single row in each partition looks rows up by an index that shares nothing with their key but the partition.
Lines statistics(pg::Connection& connection, std::int64_t fewer_than = 1'000);

/// dead_rows: of no table of more than so many rows are most dead.
Lines dead_rows(pg::Connection& connection, std::int64_t more_than = 10'000);

/// locks: whether the server's lock table holds what `connections` of ours take at most, `each` of them.
Lines lock_table(pg::Connection& connection, int connections, int each);

}  // namespace ff::check
