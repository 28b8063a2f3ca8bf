#include "reconcile/candidate.hpp"

#include <set>

namespace ff::reconcile {

RowKey read_key(const pg::Row& row, std::size_t columns) {
  RowKey key{row.get<PartitionKey>(0), {}};
  for (std::size_t i = 0; i < columns; ++i)
    key.columns.push_back(row.get<std::string>(static_cast<int>(i) + 1));
  return key;
}

void add_keys(pg::Params& params, const Reconciler& reconciler, Candidates rows) {
  std::vector<std::string> values;
  const auto add = [&](std::string_view type, auto value_of) {
    values.clear();
    for (const Candidate& row : rows) values.push_back(value_of(row));
    params.add_array(type, values);
  };
  add("smallint", [](const Candidate& row) { return std::to_string(row.key.partition.value); });
  for (std::size_t i = 0; i < reconciler.key.size(); ++i)
    add(reconciler.key[i].type, [i](const Candidate& row) { return row.key.columns[i]; });
}

Partitions partitions_of(Candidates rows) {
  std::set<PartitionKey> distinct;
  for (const Candidate& row : rows) distinct.insert(row.key.partition);
  return {distinct.begin(), distinct.end()};
}

std::optional<ExecutionId> execution_of(const Reconciler& reconciler, const RowKey& key) {
  for (std::size_t i = 0; i < key.columns.size() && i < reconciler.key.size(); ++i) {
    if (reconciler.key[i].name != reconciler.execution_column) continue;
    const auto uuid = parse_uuid(key.columns[i]);
    return uuid ? std::optional(ExecutionId{key.partition, *uuid}) : std::nullopt;
  }
  return std::nullopt;
}

std::string describe(const Reconciler& reconciler, const RowKey& key) {
  std::string text = "partition_key=" + std::to_string(key.partition.value);
  for (std::size_t i = 0; i < key.columns.size(); ++i)
    text += " " + std::string(reconciler.key[i].name) + "=" + key.columns[i];
  return text;
}

}  // namespace ff::reconcile
