#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ff::bench {

/// Where a file of tests/bench lies: "regimes.yaml".
std::string path_in_bench(const std::string& file);

/// A statement of a file below tests/bench/sql, and what the comment above it notes in lines "-- key: value".
struct SqlStatement {
  std::string text;
  std::map<std::string, std::string, std::less<>> notes;

  /// Empty: it is not noted.
  std::string note(std::string_view key) const;
  /// A list with commas.
  std::vector<std::string> words(std::string_view key) const;
  /// Throws std::runtime_error when it is no number.
  int number(std::string_view key) const;
};

/// The statements of sql/FILE.sql, in order, each up to a line that ends with a semicolon, with what fragments.sql has
/// filled in. Read once, and kept. Throws std::runtime_error, which names the place, for a key that nobody reads, a
/// statement without an end or a placeholder that means nothing, and when there is no such file.
const std::vector<SqlStatement>& sql_file(const std::string& file);
bool has_sql_file(const std::string& file);

/// That of the file with this name. Throws std::runtime_error when there is none.
const std::string& sql(const std::string& file, std::string_view name);

/// All of the file, for Connection::execute_script().
std::string sql_script(const std::string& file);

}  // namespace ff::bench
