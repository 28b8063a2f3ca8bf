#include "check/plan.hpp"

#include <nlohmann/json.hpp>

namespace ff::check {
namespace {

using nlohmann::json;

bool reads_all(const json& node) {
  const std::string type = node.value("Node Type", "");
  return type == "Seq Scan" ||
         ((type == "Index Scan" || type == "Index Only Scan") && !node.contains("Index Cond"));
}

// The least or the greatest of an index, which is one row of it. From PostgreSQL 17 on no "IS NOT NULL" bounds that.
bool reads_first(const json& node) {
  return node.value("Node Type", "") == "Limit" && node.value("Plan Rows", 0.0) == 1.0 &&
         node.at("Plans").size() == 1 && !node["Plans"][0].contains("Filter") &&
         node["Plans"][0].value("Node Type", "") == "Index Only Scan";
}

void collect(const json& node, std::set<std::string>& relations) {
  if (node.is_object() && reads_first(node)) return;
  if (node.is_object() && reads_all(node)) relations.insert(node.at("Relation Name").get<std::string>());
  if (node.is_structured())
    for (const auto& child : node) collect(child, relations);
}

void collect_indexes(const json& node, std::set<std::string>& names) {
  if (node.is_object() && node.contains("Index Name")) names.insert(node["Index Name"].get<std::string>());
  if (node.is_structured())
    for (const auto& child : node) collect_indexes(child, names);
}

}  // namespace

std::set<std::string> wholly_read(const nlohmann::json& plan) {
  std::set<std::string> relations;
  collect(plan, relations);
  return relations;
}

std::set<std::string> indexes_used(const nlohmann::json& plan) {
  std::set<std::string> names;
  collect_indexes(plan, names);
  return names;
}

}  // namespace ff::check
