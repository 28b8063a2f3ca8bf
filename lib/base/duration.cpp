#include "base/duration.hpp"

#include <array>
#include <charconv>
#include <limits>

namespace ff {
namespace {

struct Unit {
  std::string_view suffix;
  std::int64_t ms;
};

constexpr std::array<Unit, 5> kUnits{
    {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};

}  // namespace

std::optional<Milliseconds> parse_duration(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  const std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& unit : kUnits) {
    if (suffix != unit.suffix) continue;
    const auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / unit.ms);
    if (number > most) return std::nullopt;
    return Milliseconds{static_cast<std::int64_t>(number) * unit.ms};
  }
  return std::nullopt;
}

std::string format_duration(Milliseconds duration) {
  const std::int64_t ms = duration.count();
  if (ms == 0) return "0s";
  for (const Unit& unit : kUnits) {
    if (ms % unit.ms == 0) return std::to_string(ms / unit.ms) + std::string(unit.suffix);
  }
  return std::to_string(ms) + "ms";
}

std::string spoken_duration(Milliseconds duration) {
  const std::int64_t ms = duration.count() < 0 ? -duration.count() : duration.count();
  if (ms < 1'000) return std::to_string(ms) + " ms";
  if (ms < 60'000) return std::to_string(ms / 1'000) + "." + std::to_string(ms / 100 % 10) + " s";
  std::size_t unit = 0;
  while (ms < kUnits[unit].ms) ++unit;
  const auto& [large, large_ms] = kUnits[unit];
  const auto& [small, small_ms] = kUnits[unit + 1];
  std::string text = std::to_string(ms / large_ms) + " " + std::string(large);
  const std::int64_t rest = ms % large_ms / small_ms;
  if (rest > 0) text += " " + std::to_string(rest) + " " + std::string(small);
  return text;
}

}  // namespace ff
