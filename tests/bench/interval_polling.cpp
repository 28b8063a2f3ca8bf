#include "bench/interval_polling.hpp"

#include <algorithm>
#include <utility>

#include "base/partitions.hpp"
#include "bench/row_by_row.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kInterval = 2s;

}  // namespace

IntervalPolling::IntervalPolling(const pg::Connector& connector)
    : life_(std::async(std::launch::async,
                       [this, connection = connector.connect(Clock::system().now() + 5s)]() mutable {
                         poll(std::move(connection));
                       })) {}

IntervalPolling::~IntervalPolling() {
  if (life_.valid()) stopped_.set_value();
}

std::int64_t IntervalPolling::moved() {
  if (life_.wait_for(0s) == std::future_status::ready) std::exchange(life_, {}).get();
  return moved_;
}

void IntervalPolling::stop() {
  stopped_.set_value();
  std::exchange(life_, {}).get();
}

void IntervalPolling::poll(pg::Connection connection) {
  const Partitions partitions = partition_range({0}, {255});
  const auto stopped = stopped_.get_future();
  for (SteadyTime next = Clock::system().now(); stopped.wait_until(next) == std::future_status::timeout;) {
    next = std::max(next + kInterval, Clock::system().now());
    moved_ += attempt_timeout_row_by_row(connection, partitions);
  }
}

}  // namespace ff::bench
