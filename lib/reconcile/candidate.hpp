#pragma once

#include <span>
#include <string>

#include "base/partitions.hpp"
#include "pg/params.hpp"
#include "pg/result.hpp"
#include "reconcile/reconciler.hpp"
#include "reconcile/report.hpp"

namespace ff::reconcile {

/// A row that a scan has shown.
struct Candidate {
  RowKey key;
  UnixMillis due_at;
  bool due;              ///< by the database's clock, when it was shown
  UnixMillis seen_at{};  ///< by the same, when it was shown
  std::string name_space =
      {};  ///< of its execution, as is the next; empty where it was not asked for (Job::whose)
  std::string holder = {};  ///< the worker instance that has, or had, its lease
};

using Candidates = std::span<const Candidate>;

/// The key at the beginning of a result's row: partition_key and `columns` key columns.
RowKey read_key(const pg::Row& row, std::size_t columns);

/// Adds the keys as arrays, one per key column, partition_key first: what `key` is made of in an act.
void add_keys(pg::Params& params, const Reconciler& reconciler, Candidates rows);

/// The partitions in which these rows are.
Partitions partitions_of(Candidates rows);

/// The execution that a row is of, where its key names one.
std::optional<ExecutionId> execution_of(const Reconciler& reconciler, const RowKey& key);

/// "partition_key=3 execution_id=…", for people.
std::string describe(const Reconciler& reconciler, const RowKey& key);

}  // namespace ff::reconcile
