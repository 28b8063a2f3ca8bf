#pragma once

#include <string>

#include "base/partitions.hpp"
#include "pg/connection.hpp"
#include "reconcile/reconciler.hpp"

namespace ff::reconcile {

/// The statements that an engine sends, all made from the pair of one reconciler. After the parameters that
/// the pair itself uses ($1 the partitions, $2 to $4 the filter, the bounds of a slice, its own), which every statement
/// has, and the holdoff in milliseconds, come those named here; `slice_end` has parameters of its own.
///
/// There are two sets for all partitions, because `x.partition_key = ANY($1)` serves the planner
/// badly: it drops the hash children that no partition is in, but also takes the phrase for a condition that
/// the primary key shares with every other index. So where statements are planned for their values, each
/// partition is named alone (at most kNamed of them); and where a plan is for all partitions, it goes without:
/// `wanted` or `key`, which rows are joined with by their partition, say the same. A third kind names a few
/// partitions in its text, and so is planned once for them.
///
/// Making them throws std::invalid_argument for a pair with a placeholder that means nothing.
struct Statements {
  /// How many partitions a statement that is planned afresh may have.
  static constexpr std::size_t kNamed = 8;
  /// How statements over so many partitions are best planned.
  static pg::Plan plan_for(std::size_t partitions) {
    return partitions <= kNamed ? pg::Plan::custom : pg::Plan::generic;
  }

  Statements(const Reconciler& reconciler, pg::Plan plan);
  /// With these partitions written into the text; for pg::Plan::generic, and for no other partitions.
  Statements(const Reconciler& reconciler, const Partitions& partitions);

  /// Rows of each partition, oldest first, up to a number per partition; those of the same moment come in
  /// any order, so that it need not read all of them. Parameters: limit bigint; ahead bigint (milliseconds:
  /// also rows that fall due so soon); from bigint: the least due_at_ms. Columns: partition_key, key columns,
  /// due_at_ms, is_due, now_ms.
  std::string page;

  /// The same in the order of due_at_ms and key, strictly behind a position: to pass by rows that stay.
  /// Parameters: limit and ahead as in `page`; position: due_at_ms bigint and one text per key column (all
  /// null: behind all rows of that moment).
  std::string rest;

  /// The rows of one execution. Parameter: execution uuid. Columns as in `page`. Empty where rows cannot be
  /// named so.
  std::string of_execution;

  /// Which of the given rows are due, by a look without locks. Parameters: the keys as arrays, partition_key
  /// first. Columns: partition_key, key columns.
  std::string still_due;

  /// Moves the given rows. Parameters as in `still_due`. Columns: partition_key, key columns, due_at_ms,
  /// outcome, now_ms.
  std::string act;

  /// Returns a row where any of the given rows must not be moved. Parameters as in `still_due`. Empty where nothing
  /// forbids it.
  std::string forbidden;

  /// For a reconciler that walks: where its next slice ends. Parameters: partitions smallint[], from which place on,
  /// as partition_key and key, and how many rows bigint. Columns: partition_key, key; no row where fewer are left.
  std::string slice_end;

  /// Counts what is due. Parameter: cap bigint. Columns: due, oldest_due_ms, now_ms.
  std::string backlog;

 private:
  /// `in_partitions` is what {in_partitions:row} stands for.
  Statements(const Reconciler& reconciler, const Fragment& in_partitions);
};

}  // namespace ff::reconcile
