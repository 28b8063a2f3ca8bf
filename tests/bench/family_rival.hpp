#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/partitions.hpp"
#include "pg/connection.hpp"

namespace ff::bench {

/// A statement of a row's transaction, and what hangs on it.
struct Step {
  /// Its parameters: $1 partition smallint, $2 now and $3 the latest due time that counts, bigint; then, as
  /// text, the row's key columns and the columns of every row that the steps above it returned.
  std::string_view sql;
  /// Run only where the last of these texts is one of the words; empty: always.
  std::vector<std::string_view> when = {};
  /// Run, in this order, for each row that it returns.
  std::vector<Step> then = {};
};

/// A reconciler in the manner of FlowFabric's own: what it lists, and what it does to each row.
struct RowByRow {
  std::string_view name;
  /// Key columns of the due rows of a partition, oldest first. $1 partition smallint, $2 the latest due time
  /// that counts, $3 the limit, bigint.
  std::string_view list;
  /// They lock the row and look again; none of them returns a row: it is not due any more.
  std::vector<Step> steps;
  int page = 1000;
};

/// Throws std::out_of_range when there is none for the reconciler.
const RowByRow& row_by_row_of(std::string_view reconciler);

/// Partition after partition it lists a page of due rows, then moves each in a transaction of its own, one
/// round trip a statement, all of them prepared once. Lists again until a page is not full. Returns how many
/// rows it moved. `holdoff`: how long after its due time a row may be taken.
std::int64_t work_row_by_row(pg::Connection& connection, const RowByRow& way, const Partitions& partitions,
                             Milliseconds holdoff);

/// The tables of which row_by_row_of() is made.
std::vector<RowByRow> execution_rivals();
std::vector<RowByRow> flow_rivals();
std::vector<RowByRow> other_rivals();

}  // namespace ff::bench
