// README's table "What FlowFabric does, and what we do": see beside/lines.hpp.
#include <catch2/catch.hpp>
#include <fstream>

#include "beside/lines.hpp"

using namespace ff;
using namespace ff::test;

namespace {

std::vector<Line> all_lines() {
  std::vector<Line> all;
  for (auto* some : {lines_of_scans, lines_of_leases, lines_of_suspensions, lines_of_flows})
    for (Line& line : some()) all.push_back(std::move(line));
  return all;
}

// The first column of the table whose head begins so.
std::vector<std::string> first_column(const std::string& head) {
  std::ifstream readme(FF_SOURCE_DIRECTORY "/README.md");
  std::vector<std::string> cells;
  bool inside = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with("| " + head)) inside = true;
    if (!inside) continue;
    if (!line.starts_with("|")) break;
    if (!line.starts_with("|---") && !line.starts_with("| " + head))
      cells.push_back(line.substr(2, line.find(" |") - 2));
  }
  return cells;
}

}  // namespace

TEST_CASE("each line of README's table is told in a story") {
  std::vector<std::string> said = first_column("FlowFabric 0.15");
  std::vector<std::string> told;
  for (const Line& line : all_lines()) told.emplace_back(line.flowfabric);
  std::sort(said.begin(), said.end());
  std::sort(told.begin(), told.end());
  CHECK(said == told);
}

TEST_CASE("FlowFabric does what README says of it, and the daemon what README says of us") {
  for (const Line& line : all_lines()) {
    INFO(line.flowfabric);
    {
      Side flowfabric(false);
      CHECK(line.story(flowfabric) == line.theirs);
    }
    Side daemon(true);
    CHECK(line.story(daemon) == line.ours);
  }
}
