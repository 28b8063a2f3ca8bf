#pragma once

#include "reconcile/statements.hpp"

namespace ff::reconcile {

/// Statements for the partitions of one group, planned once and run batch after batch. The server keeps the plans
/// for as long as this lives; the connection must outlive it. One thread at a time.
class GroupPlan {
 public:
  /// Of `partitions` there are at most Statements::kNamed.
  GroupPlan(const Reconciler& reconciler, const Partitions& partitions);

  /// Every one of these partitions is in the group.
  bool covers(const Partitions& partitions) const;
  const Statements& statements() const { return statements_; }

 private:
  const Partitions partitions_;
  const Statements statements_;
};

}  // namespace ff::reconcile
