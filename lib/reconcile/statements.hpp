#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/partitions.hpp"
#include "reconcile/reconciler.hpp"

namespace ff::reconcile {

/// A statement that lacks only the partitions that it is about: at most Groups::kMost, which are written into its text.
///
/// Every table has 256 hash children, and what a statement costs is above all how many of them it plans for, locks and
/// opens. For one row due in each of 256 partitions, PostgreSQL 15, milliseconds to plan and to run with nothing due:
///
///   partition_key = ANY($1), one plan for all children    48    4.7   1,026 locks, 8 MB of plan
///   ($1)[1] OR ($1)[2] … for eight, planned each time       -    1.4      82 locks
///   sixteen in the text, planned once for each session    2.8    0.2      42 locks, 0.6 to 2.8 MB of plan
///
/// So partitions stand in the text, in groups that are always the same, and the plan is generic (pg::Plan::generic): it
/// is made when a session first meets the text. A plan over all children is lost with every VACUUM of one of them, this
/// one with one in sixteen; and eight replicas with statements over all children need more locks than a server has by
/// default (53200), for a bystander's statements, too.
///
/// A list of constants as `= ANY` would be taken for an index condition that the primary key shares with every other
/// index, and pick the wrong one; as OR of sixteen it is compared for each child in turn. `= ANY(…) OR = first` lets the
/// planner drop the children while it plans, and is no index condition.
class Statement {
 public:
  Statement() = default;
  explicit Statement(std::string text) : text_(std::move(text)) {}

  bool empty() const { return text_.empty(); }
  std::string over(const Partitions& partitions) const;
  /// Over how many groups it is run in one transaction: at least one, and as long as together they hold no more than
  /// about a thousand locks, of which each relation takes some fifty while it is planned.
  std::size_t groups_together() const;

 private:
  std::string text_;  // with kRow and kEnd around the row where {in_partitions:row} stands
};

/// A statement beside those of a pair, in the words of phrases() and with {in_partitions:row}; {partitions} is $1.
Statement worded(std::string_view text, const std::vector<Fragment>& own = {});

/// A statement of storm control, with the parameters {partitions}, {namespace}, {tag_key}, {tag_value}, {holdoff} and
/// {after}, a moment, in this order; {clock} as in those of a pair.
Statement statement_on_leases(std::string_view verb, std::string_view text);

/// The statements that a pair's engine sends, all made from the pair of one reconciler. After the parameters that
/// the pair itself uses ($1 the partitions, $2 to $4 the filter, the bounds of a slice, its own), which every statement
/// has, and the holdoff in milliseconds, come those named here; `slice_end` has parameters of its own.
///
/// Each begins with a comment for pg_stat_activity and the server's log: whose it is, and what it does (scan, wait, lock, act,
/// check before or after an act, count).
///
/// Making them throws std::invalid_argument for a pair with a placeholder that means nothing.
struct Statements {
  explicit Statements(const Reconciler& reconciler);

  /// Rows of each partition, oldest first, up to a number per partition; those of the same moment come in
  /// any order, so that it need not read all of them. Parameters: limit bigint; ahead bigint (milliseconds:
  /// also rows that fall due so soon); from bigint: the least due_at_ms. Columns: partition_key, key columns,
  /// due_at_ms, is_due, now_ms.
  ///
  /// A pair may declare a fragment `along`, a column of its key along which due_at_ms never falls within a partition. Then its
  /// scan need not read all rows to show the oldest: in all statements it has {in_page:row}, "the row lies where this
  /// statement looks", {page_rows}, how many are enough (null: all), and {page_from}, before which no row may be due.
  Statement page;

  /// The same in the order of due_at_ms and key, strictly behind a position: to pass by rows that stay.
  /// Parameters: limit and ahead as in `page`; position: due_at_ms bigint and one text per key column (all
  /// null: behind all rows of that moment).
  Statement rest;

  /// The same two with two more columns, name_space and holder (see {whose:core, holder}). Empty where nothing is given
  /// back.
  Statement page_whose;
  Statement rest_whose;

  /// The rows of one execution. Parameter: execution uuid. Columns as in `page`. Empty where rows cannot be
  /// named so.
  Statement of_execution;

  /// Which of the given rows are due, by a scan without locks. Parameters: the keys as arrays, partition_key
  /// first. Columns: partition_key, key columns, the row's execution or null.
  Statement still_due;

  /// Locks what must be held before `act` begins. Parameters as in `still_due`. Columns: partition_key and key columns of
  /// those of the given rows that may be moved. Empty where `act` does all of it.
  Statement lock;

  /// Waits for the given rows and locks them. Parameters as in `still_due`; no columns. Empty where nothing is waited for.
  Statement wait;

  /// Moves the given rows. Parameters as in `still_due`. Columns: partition_key, key columns, due_at_ms,
  /// outcome, now_ms; where the pair ends or deletes anything, also execution (text) and is_beside, and besides a row for
  /// each execution that was ended beside those moved (see actions_of()); last, of a pair that weighs, weight.
  Statement act;

  /// Returns a row where any of the given rows must not be moved. Parameters as in `still_due`. Empty where nothing
  /// forbids it.
  Statement forbidden;

  /// For a reconciler that walks: the end of its next slice. Parameters: partitions smallint[], behind which place, as
  /// partition_key and key, and how many rows bigint. Columns: partition_key and key of the last of so many rows, or of
  /// as many as are left, and how many they are; no row where none is left. Where it goes by whole partitions (see
  /// Walk::phases), parameters: those that are left smallint[], how many rows bigint. Columns: partition_key of the last
  /// of those that together have so many, or of all, and how many these have.
  Statement slice_end;

  /// Counts what is due. Parameter: cap bigint. Columns: due, oldest_due_ms, now_ms.
  Statement backlog;
};

}  // namespace ff::reconcile
