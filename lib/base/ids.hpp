#pragma once

#include <boost/uuid/uuid.hpp>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ff {

/// The partition that a row belongs to: 0 to ff_partition_config.num_flow_partitions - 1. All rows of one
/// flow share it.
struct PartitionKey {
  std::int16_t value = 0;
  friend auto operator<=>(PartitionKey, PartitionKey) = default;
};

using Uuid = boost::uuids::uuid;

/// Reads the canonical form only: 36 characters, hyphens in place, hexadecimal digits of either case.
std::optional<Uuid> parse_uuid(std::string_view text);
std::string to_string(const Uuid& uuid);

/// An execution as it is named outside the database: `{fp:<partition_key>}:<uuid>`.
struct ExecutionId {
  PartitionKey partition;
  Uuid uuid;
  friend bool operator==(const ExecutionId&, const ExecutionId&) = default;
};

std::optional<ExecutionId> parse_execution_id(std::string_view text);
std::string to_string(const ExecutionId& id);

}  // namespace ff
