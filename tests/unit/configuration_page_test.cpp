// docs/configuration.md has every key, with what the option table says of it.
#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "config/options.hpp"
#include "config/value.hpp"
#include "configuration.hpp"

using namespace ff;
using namespace ff::config;

namespace {

using Rows = std::set<std::string>;

/// The cells of a table's row, each without the blanks around it.
std::vector<std::string> cells(const std::string& row) {
  std::vector<std::string> found;
  for (std::size_t at = 1; at < row.size();) {
    const std::size_t end = std::min(row.find('|', at), row.size());
    const std::string cell = row.substr(at, end - at);
    const std::size_t first = cell.find_first_not_of(' ');
    found.push_back(first == cell.npos ? "" : cell.substr(first, cell.find_last_not_of(' ') + 1 - first));
    at = end + 1;
  }
  return found;
}

std::string row_of(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += ' ' + cell + " |";
  return row;
}

/// What the page says: of keys without the last cell, which is for people; and of each reconciler's defaults.
Rows rows_of_page() {
  std::ifstream page(FF_SOURCE_DIRECTORY "/docs/configuration.md");
  Rows rows;
  for (std::string line; std::getline(page, line);) {
    auto found = line.starts_with("| `") ? cells(line) : std::vector<std::string>{};
    if (found.size() == 6 && found[1].starts_with("`FF_RECONCILER_")) {
      CAPTURE(line);
      CHECK_FALSE(found[5].empty());
      found.pop_back();
      CHECK(rows.insert(row_of(found)).second);
    } else if (found.size() == 5 && (found[1] == "true" || found[1] == "false")) {
      CHECK(rows.insert(row_of(found)).second);
    }
  }
  return rows;
}

std::string allowed_on_page(const Option& option) {
  switch (option.type) {
    case Option::Type::text:
      return "text, " + range(option) + " bytes";
    case Option::Type::address:
      return "host:port";
    case Option::Type::partitions:
      return "partitions";
    default:
      return range(option);
  }
}

std::string default_of(const Option& option) {
  const std::string value = format_value(option, option.get(defaults(daemon::reconciler_decls())));
  return value.empty() ? "none" : value;
}

std::string key_row(const Option& option, const std::string& path, const std::string& fallback) {
  return row_of({'`' + path + '`', '`' + environment_name(path) + '`', fallback, allowed_on_page(option),
                 option.reloadable ? "reload" : "restart"});
}

/// What all reconcilers have stands there once, for NAME.
std::string reconciler_row(const Option& option, const ReconcilerDecl& decl) {
  const std::string section = "reconcilers." + std::string(decl.name) + '.';
  const std::string key = option.path.substr(section.size());
  if (key.starts_with("filter.")) return key_row(option, "reconcilers.NAME." + key, "as `filter`");
  for (const char* common : {"enabled", "interval", "batch_size"})
    if (key == common) return key_row(option, "reconcilers.NAME." + key, "see below");
  return key_row(option, option.path, default_of(option));
}

Rows rows_wanted() {
  Rows rows;
  const auto table = options(daemon::reconciler_decls());
  const auto value = [&](const std::string& path) {
    for (const Option& option : table)
      if (option.path == path) return default_of(option);
    return std::string();
  };
  for (const Option& option : table)
    if (!option.path.starts_with("reconcilers."))
      rows.insert(key_row(option, option.path, default_of(option)));
  for (const ReconcilerDecl& decl : daemon::reconciler_decls()) {
    const std::string section = "reconcilers." + std::string(decl.name) + '.';
    for (const Option& option : table)
      if (option.path.starts_with(section)) rows.insert(reconciler_row(option, decl));
    rows.insert(
        row_of({'`' + std::string(decl.name) + '`', value(section + "enabled"), value(section + "interval"),
                value(section + "batch_size"), decl.filterable ? "yes" : "no"}));
  }
  return rows;
}

}  // namespace

TEST_CASE("the page about configuration has every key with its variable, default and range, and no other") {
  const Rows page = rows_of_page();
  const Rows wanted = rows_wanted();
  CHECK(wanted.size() > 40);
  for (const std::string& row : wanted) {
    INFO("docs/configuration.md lacks the row: " << row);
    CHECK(page.contains(row));
  }
  for (const std::string& row : page) {
    INFO("docs/configuration.md has a row that is not in the option table: " << row);
    CHECK(wanted.contains(row));
  }
}
