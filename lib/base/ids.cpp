#include "base/ids.hpp"

#include <boost/uuid/string_generator.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <charconv>

namespace ff {

std::optional<Uuid> parse_uuid(std::string_view text) {
  // Boost's generator also reads braces and forms without hyphens; only one spelling is ours.
  constexpr std::string_view kShape = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  if (text.size() != kShape.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (kShape[i] == '-' ? c != '-' : !hex) return std::nullopt;
  }
  return boost::uuids::string_generator{}(text.begin(), text.end());
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
