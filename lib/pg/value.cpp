#include "pg/value.hpp"

#include <charconv>

namespace ff::pg {

template <class T>
std::optional<T> read_value(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}
template std::optional<std::int16_t> read_value(std::string_view);
template std::optional<std::int32_t> read_value(std::string_view);
template std::optional<std::int64_t> read_value(std::string_view);
template std::optional<double> read_value(std::string_view);

template <>
std::optional<PartitionKey> read_value(std::string_view text) {
  const auto key = read_value<std::int16_t>(text);
  return key ? std::optional(PartitionKey{*key}) : std::nullopt;
}
template <>
std::optional<Uuid> read_value(std::string_view text) {
  return parse_uuid(text);
}

}  // namespace ff::pg
