#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/partitions.hpp"
#include "base/time.hpp"
#include "pg/connection.hpp"
#include "pg/transaction.hpp"

namespace ff::simulation {

inline constexpr const char* kDefaultLane = "default";

struct NewExecution {
  PartitionKey partition{};
  std::optional<Uuid> flow{};
  std::string lane = kDefaultLane;
  std::optional<std::int32_t> max_retries{};  ///< nothing: no policy at all, so no retries
  std::int32_t priority = 0;                  ///< higher is claimed first
  std::optional<Milliseconds> deadline_in{};  ///< of the whole execution, from now on
  std::optional<std::string> name_space{};    ///< FlowFabric's have one always
  std::optional<std::string> instance_tag{};  ///< the tag cairn.instance_id
  bool blocked = false;                       ///< a scheduler keeps it back: it depends on others
  std::optional<Milliseconds> kept_for{};     ///< after its end, if its policy says so
};

/// Makes one execution that can be claimed at once, as a client of FlowFabric and a scheduler make it together: the
/// client's is `submitted`, and FlowFabric leaves it to its user to make it `runnable`.
ExecutionId create(pg::Connection& connection, const NewExecution& execution);
/// Makes `count` of them in one statement, dealt out over `partitions` in turn, else all alike.
std::vector<ExecutionId> create(pg::Connection& connection, const NewExecution& like,
                                const Partitions& partitions, int count);
std::vector<ExecutionId> create(pg::Transaction& transaction, const NewExecution& like,
                                const Partitions& partitions, int count);

}  // namespace ff::simulation
