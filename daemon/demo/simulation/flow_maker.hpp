#pragma once

#include <boost/uuid/random_generator.hpp>
#include <random>
#include <string>

#include "demo/simulation/flow.hpp"
#include "demo/simulation/workload.hpp"

namespace ff::simulation {

/// Makes small flows. Most have two fan-ins one behind the other:
///
///     first, second, slow ──► joined ──┐
///                                      ├─(all_of)─► last
///                             beside ──┘
///
/// How `joined` waits for its three changes from flow to flow: any of them, a quorum, all. Where not all are
/// needed, `slow` is still at work, or suspended, when the others are enough.
///
/// Others are a parent that works beside its two children and then waits for them; by that time they may have
/// ended. Of others again one member has been cancelled, which nobody was told, and another one was resumed by an operator.
/// And some are cancelled as a whole by somebody who does not live to see to their members.
/// Used by the thread that made it.
class FlowMaker {
 public:
  FlowMaker(Workload& workload, pg::Connection& connection) : workload_(workload), connection_(connection) {}

  /// Until the workload finishes.
  void live();

 private:
  struct Shape {
    std::string policy;  ///< of the first fan-in, as JSON
    std::optional<Plan> slow{};
  };
  using Plans = std::map<Uuid, Plan>;

  static const std::vector<Shape>& shapes();
  Plans make_fan_ins(const Shape& shape, bool with_leftover);
  Plans make_family(Milliseconds until_it_waits);
  Plans make_cancelled();
  void make_cancelled_header();
  /// Empty, with so many executions to come.
  FlowRow new_flow();
  std::vector<ExecutionId> add(pg::Transaction& transaction, const FlowRow& flow, int number, bool blocked);

  Workload& workload_;
  pg::Connection& connection_;
  boost::uuids::random_generator new_uuid_;
  std::mt19937_64 generator_{std::random_device{}()};
};

}  // namespace ff::simulation
