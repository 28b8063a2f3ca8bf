#pragma once

#include <optional>
#include <string>

namespace ff {

/// Which executions somebody cares about. A part that is asked for never matches a row in which it is null or
/// missing.
struct ScannerFilter {
  struct Tag {
    std::string key;
    std::string value;
    friend bool operator==(const Tag&, const Tag&) = default;
  };

  std::optional<std::string> name_space;  ///< `raw_fields.namespace` is exactly this
  std::optional<Tag> instance_tag;        ///< `raw_fields.tags.<key>` is exactly this text

  bool matches_everything() const { return !name_space && !instance_tag; }
  friend bool operator==(const ScannerFilter&, const ScannerFilter&) = default;
};

}  // namespace ff
