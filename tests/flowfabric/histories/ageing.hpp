#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pg/connection.hpp"

namespace ff::test {

/// Which partition keys histories use, in every space: few, so that looking at everything is cheap, and low,
/// because FlowFabric's claims walk through them from 0.
constexpr std::string_view kHistoryPartitions = "'{0,1,2,3}'::smallint[]";

/// What says when, in one table.
struct Moments {
  std::string_view table;
  bool partitioned;
  std::vector<std::string_view> columns;
  /// Moments inside JSON: the column, the path, and whether FlowFabric wrote it as text.
  struct Inside {
    std::string_view column;
    std::string_view path;
    bool as_text;
  };
  std::vector<Inside> inside{};
  /// Of the columns that end in _ms: how long, not when; or moments that are part of a key and decide nothing.
  std::vector<std::string_view> left{};
};

const std::vector<Moments>& moments();

/// Time passes: every moment in the database moves into the past.
void age(pg::Connection& connection, std::int64_t ms);

}  // namespace ff::test
