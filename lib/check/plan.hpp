#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

/// What a plan does, by the document of EXPLAIN (FORMAT JSON). Pure functions.
namespace ff::check {

/// The relations that it reads from one end to the other, by sequential scan or by an index without any bound. The first
/// row of an index is no whole relation.
std::set<std::string> wholly_read(const nlohmann::json& plan);

/// The indexes that it looks into.
std::set<std::string> indexes_used(const nlohmann::json& plan);

}  // namespace ff::check
