#pragma once

#include "histories/stage.hpp"

namespace ff::test {

/// What has to be true when every clock has run out: who is not ended is claimable, and taken by each claim
/// that the documentation names for it, or waits for something that can still happen.
class LastCall {
 public:
  explicit LastCall(Stage& stage) : stage_(stage) {}
  void run();

 private:
  void run_clocks_out();
  void ask_for_futures();
  void ask_for_a_future(const std::string& execution, const ExecutionRows& rows);
  void offer_to_every_claim(const std::string& execution, const ExecutionRows& rows);
  void offer(const std::string& execution, const ExecutionRows& rows, const std::string& claim);
  void restore(const ExecutionRows& rows);
  bool something_can_still_end(const std::string& uuid) const;
  void count_ends();
  Tally wanted_of(const std::string& downstream);
  void recount_groups();
  void check_leases();
  void check_workers();
  /// What no scanner of FlowFabric's works off.
  void check_backlogs();
  const Exclusion* misled_by(const std::string& upstream) const;
  const Exclusion* misled_over(const Json& edge) const;

  Stage& stage_;
  Snapshot end_;
};

}  // namespace ff::test
