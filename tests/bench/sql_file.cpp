#include "bench/sql_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/fragments.hpp"
#include "base/text.hpp"

namespace ff::bench {
namespace {

constexpr std::string_view kKeys[] = {"name",     "for each",
                                      "when",     "page",
                                      "rows are", "rows per partition",
                                      "tables",   "per mille",
                                      "every ms", "once for all partitions"};

std::string path_of(const std::string& file) {
  return path_in_bench("sql/" + file + ".sql");
}

bool is_key(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || c == ' '; });
}

// A comment that does not have the form of a note is for people.
void note(SqlStatement& statement, std::string_view comment) {
  const auto colon = comment.find(": ");
  if (colon == std::string_view::npos || !is_key(comment.substr(0, colon))) return;
  const std::string key(comment.substr(0, colon));
  if (std::ranges::find(kKeys, key) == std::end(kKeys))
    throw std::invalid_argument(
        fmt::format("nobody reads \"{}\"; known are {}", key, fmt::join(kKeys, ", ")));
  if (!statement.notes.emplace(key, trimmed(comment.substr(colon + 1))).second)
    throw std::invalid_argument(fmt::format("\"{}\" is said twice", key));
}

std::vector<SqlStatement> parsed(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::vector<SqlStatement> all;
  SqlStatement next;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string_view text = trimmed(line);
    try {
      if (next.text.empty() && text.starts_with("-- ")) note(next, text.substr(3));
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(fmt::format("{}:{}: {}", path, number, error.what()));
    }
    if (text.empty() || (next.text.empty() && text.starts_with("--"))) continue;
    next.text += (next.text.empty() ? "" : "\n") + line;
    if (!text.ends_with(';')) continue;
    next.text.erase(next.text.find_last_of(';'));
    all.push_back(std::exchange(next, {}));
  }
  if (!next.text.empty() || !next.notes.empty())
    throw std::runtime_error(path + ": the last statement does not end with a semicolon");
  return all;
}

const Fragments& fragments() {
  static const Fragments all = [] {
    Fragments made;
    for (const SqlStatement& each : parsed(path_of("fragments"))) made.add({each.note("name"), each.text});
    return made;
  }();
  return all;
}

std::vector<SqlStatement> expanded(const std::string& path) {
  std::vector<SqlStatement> all = parsed(path);
  try {
    for (SqlStatement& each : all) each.text = fragments().expand(each.text);
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
  return all;
}

}  // namespace

std::string path_in_bench(const std::string& file) {
  return std::string(FF_SOURCE_DIRECTORY "/tests/bench/") + file;
}

std::string SqlStatement::note(std::string_view key) const {
  const auto found = notes.find(key);
  return found == notes.end() ? "" : found->second;
}

std::vector<std::string> SqlStatement::words(std::string_view key) const {
  std::vector<std::string> all;
  std::istringstream list(note(key));
  for (std::string word; std::getline(list, word, ',');) all.emplace_back(trimmed(word));
  return all;
}

int SqlStatement::number(std::string_view key) const {
  const std::string digits = note(key);
  if (digits.empty() || digits.size() > 9 || !std::ranges::all_of(digits, is_digit))
    throw std::runtime_error(
        fmt::format("\"{}: {}\" is no number, above {}", key, digits, text.substr(0, 60)));
  return std::stoi(digits);
}

const std::vector<SqlStatement>& sql_file(const std::string& file) {
  static std::mutex mutex;
  static std::map<std::string, std::vector<SqlStatement>> files;
  const std::lock_guard lock(mutex);
  const auto found = files.find(file);
  return found != files.end() ? found->second : files.emplace(file, expanded(path_of(file))).first->second;
}

bool has_sql_file(const std::string& file) {
  return std::filesystem::exists(path_of(file));
}

const std::string& sql(const std::string& file, std::string_view name) {
  const auto& all = sql_file(file);
  const auto found = std::ranges::find(all, name, [](const SqlStatement& each) { return each.note("name"); });
  if (found == all.end()) throw std::runtime_error(fmt::format("{} has no \"{}\"", path_of(file), name));
  return found->text;
}

std::string sql_script(const std::string& file) {
  std::string script;
  for (const SqlStatement& each : sql_file(file)) script += each.text + ";\n";
  return script;
}

}  // namespace ff::bench
