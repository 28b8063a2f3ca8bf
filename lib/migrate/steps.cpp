#include <algorithm>

#include "migrate/migrations.hpp"

namespace ff::migrate {

std::vector<Step> steps(std::string_view sql) {
  std::vector<Step> result;
  const auto add = [&](std::string_view part, bool commits_itself) {
    if (part.find_first_not_of(" \t\r\n") != std::string_view::npos) result.push_back({part, commits_itself});
  };
  std::size_t block = 0;  // where what has not been added yet begins
  for (std::size_t line = 0; line < sql.size();) {
    const std::size_t next = std::min(sql.find('\n', line), sql.size() - 1) + 1;
    if (sql.substr(line).starts_with("CALL ")) {
      add(sql.substr(block, line - block), false);
      add(sql.substr(line, next - line), true);
      block = next;
    }
    line = next;
  }
  add(sql.substr(block), false);
  return result;
}

}  // namespace ff::migrate
