#include "base/moment.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/text.hpp"

namespace ff {
namespace {

using std::chrono::day;
using std::chrono::days;
using std::chrono::hh_mm_ss;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::month;
using std::chrono::sys_days;
using std::chrono::year;
using std::chrono::year_month_day;

/// Reads a text of fixed places from its beginning.
class Places {
 public:
  explicit Places(std::string_view text) : rest_(text) {}

  bool take(char wanted) {
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  /// So many digits, of a number up to `most`.
  std::optional<int> number(std::size_t digits, int most) {
    if (rest_.size() < digits || !std::all_of(rest_.begin(), rest_.begin() + digits, is_digit))
      return std::nullopt;
    int value = 0;
    for (const char c : rest_.substr(0, digits)) value = 10 * value + (c - '0');
    rest_.remove_prefix(digits);
    return value <= most ? std::optional(value) : std::nullopt;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

std::optional<sys_days> read_day(Places& places) {
  const auto year_read = places.number(4, 9999);
  if (!year_read || !places.take('-')) return std::nullopt;
  const auto month_read = places.number(2, 12);
  if (!month_read || !places.take('-')) return std::nullopt;
  const auto day_read = places.number(2, 31);
  if (!day_read) return std::nullopt;
  const year_month_day date{year{*year_read}, month{static_cast<unsigned>(*month_read)},
                            day{static_cast<unsigned>(*day_read)}};
  return date.ok() ? std::optional(sys_days{date}) : std::nullopt;
}

// "06:00"; where they may stand, with seconds.
std::optional<std::chrono::seconds> read_time(Places& places, bool with_seconds) {
  const auto hours_read = places.number(2, 23);
  if (!hours_read || !places.take(':')) return std::nullopt;
  const auto minutes_read = places.number(2, 59);
  if (!minutes_read) return std::nullopt;
  int seconds_read = 0;
  if (with_seconds && places.take(':')) {
    const auto read = places.number(2, 59);
    if (!read) return std::nullopt;
    seconds_read = *read;
  }
  return hours{*hours_read} + minutes{*minutes_read} + std::chrono::seconds{seconds_read};
}

}  // namespace

std::optional<UnixMillis> parse_moment(std::string_view text) {
  Places places(text);
  const auto date = read_day(places);
  if (!date || !places.take('T')) return std::nullopt;
  const auto time = read_time(places, true);
  if (!time) return std::nullopt;
  std::chrono::seconds ahead_of_utc{0};
  if (!places.take('Z')) {
    const bool behind = places.take('-');
    if (!behind && !places.take('+')) return std::nullopt;
    const auto zone = read_time(places, false);
    if (!zone) return std::nullopt;
    ahead_of_utc = behind ? -*zone : *zone;
  }
  if (!places.at_end()) return std::nullopt;
  return UnixMillis{*date + *time - ahead_of_utc};
}

std::string format_moment(UnixMillis at) {
  constexpr UnixMillis kFirst{sys_days{year{0} / 1 / 1}};
  constexpr UnixMillis kLast{sys_days{year{9999} / 12 / 31} + hours{24} - Milliseconds{1}};
  const auto shown = floor<std::chrono::seconds>(std::clamp(at, kFirst, kLast));
  const auto date = floor<days>(shown);
  const year_month_day ymd{date};
  const hh_mm_ss time{shown - date};
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(ymd.year()),
                static_cast<unsigned>(ymd.month()), static_cast<unsigned>(ymd.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  return text.data();
}

}  // namespace ff
