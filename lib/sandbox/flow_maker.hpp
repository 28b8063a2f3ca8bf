#pragma once

#include <boost/uuid/random_generator.hpp>
#include <random>
#include <string>

#include "sandbox/workload.hpp"

namespace ff::sandbox {

/// Makes small flows, each with two fan-ins one behind the other:
///
///     first, second, slow ──► joined ──┐
///                                      ├─(all_of)─► last
///                             beside ──┘
///
/// How `joined` waits for its three changes from flow to flow: any of them, a quorum, all. Where not all are
/// needed, `slow` is still at work, or suspended, when the others are enough. Used by the thread that made
/// it.
class FlowMaker {
 public:
  FlowMaker(Workload& workload, pg::Connection& connection) : workload_(workload), connection_(connection) {}

  /// Until the workload finishes.
  void live();

 private:
  struct Shape {
    std::string policy;  ///< of the first fan-in, as JSON
    std::int32_t needed = 3;
    std::optional<Plan> slow{};
  };
  struct Flow {
    PartitionKey partition;
    Uuid id;
  };

  static const std::vector<Shape>& shapes();
  void make(const Shape& shape, bool with_leftover);
  std::vector<ExecutionId> insert(const Shape& shape, bool with_leftover);
  void add_executions(pg::Transaction& transaction, const Flow& flow, const std::vector<Uuid>& ids,
                      bool blocked);
  void add_fan_in(pg::Transaction& transaction, const Flow& flow, const std::vector<Uuid>& upstreams,
                  const Uuid& downstream, const Shape& shape);

  Workload& workload_;
  pg::Connection& connection_;
  boost::uuids::random_generator new_uuid_;
  std::mt19937_64 generator_{std::random_device{}()};
};

}  // namespace ff::sandbox
