#include "pg/result.hpp"

#include <libpq-fe.h>

#include <charconv>
#include <stdexcept>
#include <type_traits>

#include "pg/value.hpp"

namespace ff::pg {

bool Row::is_null(int column) const {
  return PQgetisnull(result_, row_, column) != 0;
}

std::string_view Row::text(int column) const {
  if (is_null(column)) refuse(column, "a value that is not null");
  return {PQgetvalue(result_, row_, column), static_cast<std::size_t>(PQgetlength(result_, row_, column))};
}

void Row::refuse(int column, std::string_view wanted) const {
  const char* name = PQfname(result_, column);
  throw std::runtime_error(
      "column " + std::string(name != nullptr ? name : "?") + ": expected " + std::string(wanted) + ", got " +
      (is_null(column) ? "null" : "\"" + std::string(PQgetvalue(result_, row_, column)) + "\""));
}

int Row::column(std::string_view name) const {
  const int column = PQfnumber(result_, std::string(name).c_str());
  if (column < 0) throw std::runtime_error("the result has no column " + std::string(name));
  return column;
}

template <class T>
T Row::read(int column) const {
  const auto value = read_value<T>(text(column));
  if (!value) refuse(column, std::is_same_v<T, Uuid> ? "a uuid" : "a number in range");
  return *value;
}
template std::int16_t Row::read<std::int16_t>(int) const;
template std::int32_t Row::read<std::int32_t>(int) const;
template std::int64_t Row::read<std::int64_t>(int) const;
template double Row::read<double>(int) const;
template PartitionKey Row::read<PartitionKey>(int) const;
template Uuid Row::read<Uuid>(int) const;

template <>
bool Row::read<bool>(int column) const {
  return text(column) == "t";
}
template <>
std::string_view Row::read<std::string_view>(int column) const {
  return text(column);
}
template <>
std::string Row::read<std::string>(int column) const {
  return std::string(text(column));
}

Result::Result(pg_result* owned) : result_(owned) {}

int Result::size() const {
  return PQntuples(result_.get());
}
int Result::columns() const {
  return PQnfields(result_.get());
}
std::string_view Result::column_name(int column) const {
  return PQfname(result_.get(), column);
}

std::int64_t Result::affected() const {
  const std::string_view tag = PQcmdTuples(result_.get());
  std::int64_t rows = 0;
  std::from_chars(tag.data(), tag.data() + tag.size(), rows);
  return rows;
}

std::string_view Result::command() const {
  return PQcmdStatus(result_.get());
}

Row Result::one() const {
  if (size() != 1) throw std::runtime_error("expected one row, got " + std::to_string(size()));
  return (*this)[0];
}

void Result::Clear::operator()(pg_result* result) const {
  PQclear(result);
}

}  // namespace ff::pg
