#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/partitions.hpp"

namespace ff::pg {

/// The values of a statement's $1, $2, … in order, each with its PostgreSQL type, so that a statement needs
/// no casts and the planner sees typed constants. Values travel in text form.
class Params {
 public:
  Params() = default;

  /// Shorthand: Params::of(partition, uuid, 5) for three calls of add().
  template <class... Values>
  static Params of(const Values&... values) {
    Params params;
    (params.add(values), ...);
    return params;
  }

  Params& add(bool value);
  Params& add(std::int16_t value);
  Params& add(std::int32_t value);
  Params& add(std::int64_t value);
  Params& add(PartitionKey value) { return add(value.value); }
  Params& add(const Uuid& value);
  Params& add(std::string_view value);
  Params& add(const std::string& value) { return add(std::string_view{value}); }
  Params& add(const char* value) { return add(std::string_view{value}); }
  Params& add(const Partitions& value);
  Params& add(const std::vector<std::int64_t>& value);
  Params& add(const std::vector<Uuid>& value);
  Params& add(const std::vector<std::string>& value);

  /// A null of the type that the value would have had.
  template <class T>
  Params& add(const std::optional<T>& value) {
    if (value) return add(*value);
    add(T{});
    values_.back().reset();
    return *this;
  }

  /// An array whose elements are given as text and whose type is named: "smallint", "integer", "bigint",
  /// "bytea", "text" or "uuid". For code that handles columns without knowing them.
  Params& add_array(std::string_view element_type, const std::vector<std::string>& elements);

  /// Adds all values of another.
  Params& append(const Params& other);

  std::size_t size() const { return values_.size(); }
  const std::vector<std::optional<std::string>>& values() const { return values_; }
  /// Type OIDs (pg_type.dat), beside values().
  const std::vector<unsigned>& types() const { return types_; }

 private:
  Params& put(unsigned type, std::string value);

  std::vector<std::optional<std::string>> values_;
  std::vector<unsigned> types_;
};

}  // namespace ff::pg
