#pragma once

#include <optional>
#include <string_view>

#include "base/ids.hpp"

namespace ff::pg {

/// What the server wrote as text, read as T: std::int16_t, std::int32_t, std::int64_t, double, PartitionKey or Uuid.
/// Nothing where it is none, or none that fits.
template <class T>
std::optional<T> read_value(std::string_view text);
template <>
std::optional<PartitionKey> read_value(std::string_view text);
template <>
std::optional<Uuid> read_value(std::string_view text);

}  // namespace ff::pg
