#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.hpp"

struct pg_result;  // libpq's PGresult

namespace ff::pg {

class Result;

/// One row of a Result, valid as long as the Result.
class Row {
 public:
  bool is_null(int column) const;

  /// The value of a column as bool, std::int16_t, std::int32_t, std::int64_t, double, std::string_view,
  /// std::string, Uuid or PartitionKey; std::optional of these where it may be null. Throws
  /// std::runtime_error that names the column when it is null or does not read as T: such a statement and its
  /// reader do not belong together.
  template <class T>
  T get(int column) const;
  template <class T>
  T get(std::string_view name) const {
    return get<T>(column(name));
  }

  /// The position of a column by its name; throws std::runtime_error when there is none.
  int column(std::string_view name) const;

 private:
  friend class Result;
  Row(const pg_result* result, int row) : result_(result), row_(row) {}
  std::string_view text(int column) const;
  [[noreturn]] void refuse(int column, std::string_view wanted) const;
  template <class T>
  T read(int column) const;

  const pg_result* result_;
  int row_;
};

/// The rows that a statement returned. Owns libpq's memory; movable; not to be used by two threads at once.
class Result {
 public:
  explicit Result(pg_result* owned);

  int size() const;
  bool empty() const { return size() == 0; }
  int columns() const;
  std::string_view column_name(int column) const;
  /// Rows inserted, updated, deleted or selected, as the command tag says.
  std::int64_t affected() const;
  /// The command tag: "COMMIT", "INSERT 0 3".
  std::string_view command() const;

  Row operator[](int row) const { return Row{result_.get(), row}; }
  /// The only row; throws std::runtime_error when there are more or none.
  Row one() const;

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Row;
    using difference_type = int;
    using pointer = void;
    using reference = Row;
    Iterator(const Result& result, int row) : result_(&result), row_(row) {}
    Row operator*() const { return (*result_)[row_]; }
    Iterator& operator++() {
      ++row_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return row_ == other.row_; }

   private:
    const Result* result_;
    int row_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

 private:
  friend class Connection;
  struct Clear {
    void operator()(pg_result* result) const;
  };
  std::unique_ptr<pg_result, Clear> result_;
};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
T Row::get(int column) const {
  if constexpr (IsOptional<T>::value) {
    if (is_null(column)) return std::nullopt;
    return read<typename T::value_type>(column);
  } else {
    return read<T>(column);
  }
}

}  // namespace ff::pg
