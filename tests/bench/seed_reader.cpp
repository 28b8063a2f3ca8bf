#include "bench/seed_reader.hpp"

#include "bench/sql_file.hpp"
#include "lease/outbox_reader.hpp"
#include "pg/listener.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kChannelCapacity = 1024;
constexpr int kReplayBatch = 256;

lease::OutboxRow decoded(const pg::Row& row) {
  return {.event_id = row.get<std::int64_t>(0),
          .partition_key = row.get<std::int32_t>(5),
          .execution_id = row.get<std::string>(1),
          .lease_id = row.get<std::optional<std::string>>(2),
          .event_type = row.get<std::string>(3),
          .occurred_at_ms = row.get<std::int64_t>(4),
          .name_space = row.get<std::optional<std::string>>(6),
          .instance_tag = row.get<std::optional<std::string>>(7)};
}

}  // namespace

SeedReader::SeedReader(const pg::Connector& connector, PartitionKey partition, std::int64_t after)
    : connector_(connector), partition_(partition), last_seen_(after), thread_([this] { live(); }) {}

SeedReader::~SeedReader() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  interrupt_.raise();
}

std::optional<lease::Event> SeedReader::next(SteadyTime deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [&] { return failure_ || !channel_.empty(); });
  if (channel_.empty()) {
    if (failure_) std::rethrow_exception(failure_);
    return std::nullopt;
  }
  std::optional<lease::Event> event = std::move(channel_.front());
  channel_.pop_front();
  if (channel_.size() + 1 == kChannelCapacity) changed_.notify_all();
  return event;
}

// The thread.
void SeedReader::live() {
  try {
    pg::Listener listener(connector_.connect(Clock::system().now() + 10s, &interrupt_));
    listener.listen({lease::kChannel});
    pg::Connection session = connector_.connect(Clock::system().now() + 10s, &interrupt_);
    pg::Wake nobody_raises;
    while (replay(session)) listener.wait(Clock::system().now() + 1h, nobody_raises);
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

// False: the subscription is closed.
bool SeedReader::replay(pg::Connection& session) {
  static const std::string& statement = sql("lease_events", "replay");
  for (;;) {
    const pg::Result rows = session.execute_prepared(
        statement, pg::Params::of(std::int32_t{partition_.value}, last_seen_, std::int64_t{kReplayBatch}));
    if (rows.empty()) return true;
    for (const pg::Row& each : rows) {
      const lease::OutboxRow row = decoded(each);
      last_seen_ = row.event_id;
      if (!lease::matches({}, row)) continue;
      auto event = lease::event_of(row);
      if (event && !send(std::move(*event))) return false;
    }
  }
}

bool SeedReader::send(lease::Event event) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || channel_.size() < kChannelCapacity; });
  if (closed_) return false;
  channel_.push_back(std::move(event));
  if (channel_.size() == 1) changed_.notify_all();
  return true;
}

}  // namespace ff::bench
