#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/partitions.hpp"
#include "pg/connection.hpp"

namespace ff::bench {

/// The rival: a reconciler in the manner of FlowFabric's own, as sql/RECONCILER/rival.sql has it. Partition after
/// partition it lists a page of due rows, then moves each in a transaction of its own, one round trip a statement, all of
/// them prepared once. Lists again until a page is not full.
///
/// The statement `list` shows key columns of the due rows of a partition, oldest first: $1 partition smallint, $2 the
/// latest due time that counts, $3 the limit (`page`: 1000 unless noted), bigint. The others are a row's transaction:
/// $1 partition, $2 now and $3 the latest due time that counts; then, as text, the row's key columns and the columns of
/// every row that led to this one. Those `for each` NAME are run for each row that NAME returned; `when` WORD, … only
/// where the last of these texts is one of the words. The first lock the row and look again: none of them returns a row,
/// it is not due any more.
class RowByRow {
 public:
  /// Throws std::runtime_error when its file cannot be understood.
  explicit RowByRow(const std::string& reconciler);

  /// Returns how many rows it moved. `holdoff`: how long after its due time a row may be taken.
  std::int64_t work(pg::Connection& connection, const Partitions& partitions,
                    Milliseconds holdoff = Milliseconds{0}) const;

 private:
  struct Step {
    std::string_view sql;
    std::vector<std::string> when;
    std::vector<Step> then;
  };
  struct Known;
  static std::int64_t run(pg::Connection& connection, const std::vector<Step>& steps, const Known& known);
  static std::vector<Step> steps_for_each(const std::string& reconciler, std::string_view name);

  std::string_view list_;
  std::int64_t page_ = 1000;
  std::vector<Step> steps_;
};

}  // namespace ff::bench
