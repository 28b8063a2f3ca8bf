#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ff {

/// A number that a reconciler lets its operator choose, declared beside the reconciler and read by
/// configuration, command line and documentation alike.
struct SettingDecl {
  /// `durations` are by name, such as a namespace's: of a setting "ages" that of tenant-a is the entry "ages.tenant-a" in
  /// Settings, where nothing means "keep" and the setting itself has no entry.
  enum class Kind { duration /* milliseconds */, count, flag /* 0 or 1 */, durations };

  std::string_view name;
  Kind kind;
  std::int64_t fallback;  ///< the value when nothing is configured
  std::int64_t least;
  std::int64_t most;
  bool may_be_unlimited = false;  ///< the word "unlimited" is allowed as well
  std::string_view summary;
  bool zero_is_off = false;  ///< nought is written "off", and may be written 0 as well
};

/// Values by setting name; nothing stands for "unlimited".
using Settings = std::map<std::string, std::optional<std::int64_t>, std::less<>>;

}  // namespace ff
