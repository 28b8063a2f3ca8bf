#include "base/ids.hpp"

#include <boost/uuid/uuid_io.hpp>
#include <charconv>

namespace ff {
namespace {

std::optional<unsigned> value_of_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

}  // namespace

std::optional<Uuid> parse_uuid(std::string_view text) {
  // Boost's generator also reads braces and forms without hyphens, only one spelling is ours; and it takes
  // several times as long, which a replay of the lease history feels.
  constexpr std::string_view kShape = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  if (text.size() != kShape.size()) return std::nullopt;
  Uuid uuid{};
  std::size_t digits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (kShape[i] == '-') {
      if (text[i] != '-') return std::nullopt;
      continue;
    }
    const auto digit = value_of_digit(text[i]);
    if (!digit) return std::nullopt;
    std::uint8_t& byte = uuid.data[digits++ / 2];
    byte = static_cast<std::uint8_t>(byte << 4U | *digit);
  }
  return uuid;
}

std::string to_string(const Uuid& uuid) {
  return boost::uuids::to_string(uuid);
}

std::optional<ExecutionId> parse_execution_id(std::string_view text) {
  constexpr std::string_view kPrefix = "{fp:";
  constexpr std::string_view kBetween = "}:";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  PartitionKey partition;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), partition.value);
  if (error != std::errc{} || partition.value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.starts_with(kBetween)) return std::nullopt;
  const auto uuid = parse_uuid(text.substr(kBetween.size()));
  if (!uuid) return std::nullopt;
  return ExecutionId{partition, *uuid};
}

std::string to_string(const ExecutionId& id) {
  return "{fp:" + std::to_string(id.partition.value) + "}:" + ff::to_string(id.uuid);
}

}  // namespace ff
