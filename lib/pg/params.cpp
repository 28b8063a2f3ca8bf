#include "pg/params.hpp"

#include <array>
#include <stdexcept>

namespace ff::pg {
namespace {

// pg_type.dat
constexpr unsigned kBool = 16, kInt8 = 20, kInt2 = 21, kInt4 = 23, kText = 25, kUuid = 2950;
constexpr unsigned kByteaArray = 1001, kInt2Array = 1005, kInt4Array = 1007, kTextArray = 1009,
                   kInt8Array = 1016, kUuidArray = 2951;

struct ArrayType {
  std::string_view element;
  unsigned oid;
};
constexpr std::array<ArrayType, 6> kArrays{{{"smallint", kInt2Array},
                                            {"integer", kInt4Array},
                                            {"bigint", kInt8Array},
                                            {"bytea", kByteaArray},
                                            {"text", kTextArray},
                                            {"uuid", kUuidArray}}};

// Every element is quoted: that is right for all types, and a null, an empty text or a brace needs no case of
// its own.
void append_element(std::string& array, std::string_view element) {
  array += array.size() == 1 ? "\"" : ",\"";
  for (const char c : element) {
    if (c == '"' || c == '\\') array += '\\';
    array += c;
  }
  array += '"';
}

template <class Elements, class ToText>
std::string array_of(const Elements& elements, ToText to_text) {
  std::string array = "{";
  for (const auto& element : elements) append_element(array, to_text(element));
  return array + '}';
}

}  // namespace

Params& Params::put(unsigned type, std::string value) {
  types_.push_back(type);
  values_.emplace_back(std::move(value));
  return *this;
}

Params& Params::add(bool value) {
  return put(kBool, value ? "t" : "f");
}
Params& Params::add(std::int16_t value) {
  return put(kInt2, std::to_string(value));
}
Params& Params::add(std::int32_t value) {
  return put(kInt4, std::to_string(value));
}
Params& Params::add(std::int64_t value) {
  return put(kInt8, std::to_string(value));
}
Params& Params::add(const Uuid& value) {
  return put(kUuid, to_string(value));
}
Params& Params::add(std::string_view value) {
  return put(kText, std::string(value));
}

Params& Params::add(const Partitions& value) {
  return put(kInt2Array, array_of(value, [](PartitionKey key) { return std::to_string(key.value); }));
}
Params& Params::add(const std::vector<std::int64_t>& value) {
  return put(kInt8Array, array_of(value, [](std::int64_t element) { return std::to_string(element); }));
}
Params& Params::add(const std::vector<Uuid>& value) {
  return put(kUuidArray, array_of(value, [](const Uuid& element) { return to_string(element); }));
}
Params& Params::add(const std::vector<std::string>& value) {
  return add_array("text", value);
}

Params& Params::add_array(std::string_view element_type, const std::vector<std::string>& elements) {
  for (const ArrayType& type : kArrays) {
    if (type.element == element_type)
      return put(type.oid, array_of(elements, [](const std::string& element) { return element; }));
  }
  throw std::invalid_argument("no array type for elements of type " + std::string(element_type));
}

Params& Params::append(const Params& other) {
  values_.insert(values_.end(), other.values_.begin(), other.values_.end());
  types_.insert(types_.end(), other.types_.begin(), other.types_.end());
  return *this;
}

}  // namespace ff::pg
