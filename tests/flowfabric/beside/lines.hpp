#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "world.hpp"

/// README's table "What FlowFabric does, and what we do": each line is a story that is told twice, on a database of its
/// own, with FlowFabric's scanners and with our reconcilers.
namespace ff::test {

/// A world, and one of the two that look after it.
class Side {
 public:
  explicit Side(bool is_ours) : ours(is_ours) {}

  /// One turn of what both call `name`. `filter`: a namespace, where it is not empty.
  void scan(std::string_view name, const std::string& filter = {});
  /// The same while somebody holds what `lock` takes; FlowFabric waits for it a fifth of a second. What it counted as
  /// done and as an error.
  std::string look_behind(const std::string& lock, std::string_view name, const std::string& filter = {});
  /// One turn of everything that there is.
  void look_all();

  const bool ours;
  World world;

 private:
  reconcile::TickReport tick(std::string_view name, const std::string& filter);
};

struct Line {
  std::string_view flowfabric;  ///< as README says it in its first column
  std::function<std::string(Side&)> story;
  std::string_view theirs;  ///< what the story comes to with FlowFabric's scanners
  std::string_view ours;
};

std::vector<Line> lines_of_scans();
std::vector<Line> lines_of_leases();
std::vector<Line> lines_of_suspensions();
std::vector<Line> lines_of_flows();

}  // namespace ff::test
