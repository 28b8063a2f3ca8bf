#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "lease/event.hpp"
#include "pg/connect.hpp"
#include "pg/wake.hpp"

namespace ff::bench {

/// The rival: one subscription to one partition as FlowFabric's own `subscribe_lease_history` does it. A
/// connection that listens and one that reads; 256 rows a query, until a query comes back empty, first at
/// once and then after each notification; each event typed as it is read and put into a channel for 1024, one
/// by one. What is visible is delivered, whatever transaction may still commit a lower id, and so it misses
/// events.
///
/// Two things are in its favour: FlowFabric reads again for each notification that came, here those that came
/// together count as one; and its pool asks a connection whether it is alive before each query, here no.
/// Where FlowFabric connects again after a failure, next() throws it: a measurement is void then.
class SeedReader {
 public:
  /// Reads what is strictly behind `after`. The connector must outlive this.
  SeedReader(const pg::Connector& connector, PartitionKey partition, std::int64_t after);
  ~SeedReader();
  SeedReader(const SeedReader&) = delete;
  SeedReader& operator=(const SeedReader&) = delete;

  /// Nothing: the deadline has passed. Throws what ended the reading. One thread.
  std::optional<lease::Event> next(SteadyTime deadline);

 private:
  void live();
  bool replay(pg::Connection& session);
  bool send(lease::Event event);

  const pg::Connector& connector_;
  const PartitionKey partition_;
  std::int64_t last_seen_;
  pg::Interrupt interrupt_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<lease::Event> channel_;
  std::exception_ptr failure_;
  bool closed_ = false;

  std::jthread thread_;  // last: it uses all the others
};

}  // namespace ff::bench
