#include "bench/polling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "bench/backlog.hpp"
#include "bench/process_cost.hpp"
#include "bench/row_by_row.hpp"
#include "bench/sql_file.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kBatch = 1000;

std::int64_t find_nothing(pg::Connection& connection, const std::string& candidates,
                          const Partitions& partitions) {
  const std::int64_t now = count(Clock::system().wall());
  for (const PartitionKey partition : partitions) {
    const auto found = connection.execute_prepared(candidates, pg::Params::of(partition, now, kBatch));
    if (!found.empty())
      throw std::runtime_error(fmt::format("{} rows are due where none should be", found.size()));
  }
  return 0;
}

}  // namespace

Polling::Polling(const pg::Connector& connector, std::vector<Poll> polls)
    : running_(std::async(std::launch::async,
                          [this, connection = connect(connector), polls = std::move(polls)]() mutable {
                            run(std::move(connection), std::move(polls));
                          })) {}

Polling::~Polling() {
  if (running_.valid()) stopped_.set_value();
}

std::int64_t Polling::rows() {
  if (running_.wait_for(0s) == std::future_status::ready) std::exchange(running_, {}).get();
  return rows_;
}

void Polling::stop() {
  stopped_.set_value();
  std::exchange(running_, {}).get();
}

void Polling::run(pg::Connection connection, std::vector<Poll> polls) {
  const auto stopped = stopped_.get_future();
  std::vector<SteadyTime> next(polls.size(), Clock::system().now());
  for (;;) {
    const auto first = std::ranges::min_element(next);
    if (stopped.wait_until(*first) == std::future_status::ready) return;
    const Poll& poll = polls[static_cast<std::size_t>(first - next.begin())];
    *first = std::max(*first + poll.every, Clock::system().now() + poll.pause);
    rows_ += poll.rows(connection);
    ++polls_;
    cpu_seconds_ = cpu_seconds_of_this_thread();
  }
}

std::vector<Polling::Poll> polls_for_lapsed_leases() {
  return {{.rows = [way = RowByRow("attempt_timeout"), partitions = all_partitions(kPartitions)](
                       pg::Connection& connection) { return way.work(connection, partitions); },
           .every = 2s,
           .pause = 0s}};
}

std::vector<Polling::Poll> polls_for_nothing() {
  std::vector<Polling::Poll> all;
  for (const SqlStatement& each : sql_file("polling"))
    for (const std::string& every : each.words("every ms")) {
      const Milliseconds interval{std::stoi(every)};
      const bool once = !each.note("once for all partitions").empty();
      all.push_back(
          {.rows =
               [&each, partitions = all_partitions(once ? 1 : kPartitions)](pg::Connection& connection) {
                 return find_nothing(connection, each.text, partitions);
               },
           .every = interval,
           .pause = interval});
    }
  return all;
}

}  // namespace ff::bench
