#include "bench/lease_history.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "bench/lease_events.hpp"
#include "bench/own_process.hpp"
#include "bench/seed_reader.hpp"
#include "lease/history.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr PartitionKey kReplayed{0};
constexpr PartitionKey kSpread{1};
constexpr int kSpreadOver = 32;
constexpr PartitionKey kTailed{kSpread.value + kSpreadOver};
constexpr auto kPatience = 30s;

SteadyTime now() {
  return Clock::system().now();
}

double seconds_since(SteadyTime start) {
  return std::chrono::duration<double>(now() - start).count();
}

class Ours {
 public:
  explicit Ours(const pg::Connector& connector) : history_(connector) {}
  lease::Subscription tail(PartitionKey partition, std::int64_t after) {
    return history_.subscribe({.partition = {partition}, .after = to_bytes(lease::Cursor{after})});
  }
  static constexpr bool kMayMiss = false;

 private:
  lease::History history_;
};

class Seeds {
 public:
  explicit Seeds(const pg::Connector& connector) : connector_(connector) {}
  SeedReader tail(PartitionKey partition, std::int64_t after) { return {connector_, partition, after}; }
  static constexpr bool kMayMiss = true;

 private:
  const pg::Connector& connector_;
};

std::optional<lease::Event> next_event(lease::Subscription& tail, SteadyTime deadline) {
  while (auto delivery = tail.next(deadline))
    if (auto* event = std::get_if<lease::Event>(&*delivery)) return std::move(*event);
  return std::nullopt;
}
std::optional<lease::Event> next_event(SeedReader& tail, SteadyTime deadline) {
  return tail.next(deadline);
}

// Sees that a partition's events come by strictly rising id.
class Check {
 public:
  Check(PartitionKey partition, std::int64_t after) : partition_(partition), last_(after) {}

  std::int64_t note(const lease::Event& event) {
    const lease::Occurrence& what = occurrence(event);
    if (what.execution.partition != partition_ || what.cursor.event_id <= last_)
      throw std::runtime_error("lease event " + std::to_string(what.cursor.event_id) + " came after " +
                               std::to_string(last_));
    ++count_;
    return last_ = what.cursor.event_id;
  }
  std::int64_t last() const { return last_; }
  std::int64_t count() const { return count_; }

 private:
  const PartitionKey partition_;
  std::int64_t last_;
  std::int64_t count_ = 0;
};

template <class Source>
void consume(Source& source, const StoredEvents& stored) {
  Check check(stored.partition, stored.after);
  auto tail = source.tail(stored.partition, stored.after);
  while (check.last() < stored.last) {
    const auto event = next_event(tail, now() + kPatience);
    if (!event) break;
    check.note(*event);
  }
  if (check.count() != stored.count)
    throw std::runtime_error(std::to_string(check.count()) + " lease events were delivered instead of " +
                             std::to_string(stored.count));
}

// A consumer each for all these partitions.
template <class Source>
Effort replay(const pg::Connector& connector, const std::vector<StoredEvents>& stored) {
  // The first connection of a process brings parts of libraries into memory that are not the reader's.
  auto session = connector.connect(now() + kPatience);
  newest_lease_event(session);
  session.close();
  const double resident_before = resident_mib();
  const SteadyTime started = now();
  Source source(connector);
  std::vector<std::future<void>> consumers;
  for (const StoredEvents& each : stored)
    consumers.push_back(std::async(std::launch::async, [&] { consume(source, each); }));
  for (auto& consumer : consumers) consumer.get();
  return {seconds_since(started), most_resident_mib() - resident_before};
}

struct Latency {
  double p50_ms = 0;
  double p99_ms = 0;
  double committed_per_second = 0;
  std::int64_t missed = 0;
};

Latency latency_of(const std::vector<Committed>& committed,
                   const std::unordered_map<std::int64_t, SteadyTime>& delivered) {
  std::vector<double> milliseconds;
  for (const Committed& each : committed)
    if (const auto found = delivered.find(each.event_id); found != delivered.end())
      milliseconds.push_back(std::chrono::duration<double, std::milli>(found->second - each.at).count());
  if (milliseconds.size() != delivered.size())
    throw std::runtime_error("lease events were delivered that nobody committed");
  std::sort(milliseconds.begin(), milliseconds.end());
  const auto [first, last] = std::minmax_element(
      committed.begin(), committed.end(), [](const Committed& a, const Committed& b) { return a.at < b.at; });
  return {.p50_ms = milliseconds.at(milliseconds.size() / 2),
          .p99_ms = milliseconds.at(milliseconds.size() * 99 / 100),
          .committed_per_second = static_cast<double>(committed.size()) /
                                  std::chrono::duration<double>(last->at - first->at).count(),
          .missed = static_cast<std::int64_t>(committed.size() - milliseconds.size())};
}

template <class Source>
Latency latency(const pg::Connector& connector, const LeaseHistoryOptions& options) {
  auto session = connector.connect(now() + kPatience);
  Check check(kTailed, newest_lease_event(session));
  Source source(connector);
  auto tail = source.tail(kTailed, check.last());
  // Until this one is there the reader may still be connecting.
  const std::int64_t first = commit_lease_event(session, kTailed).event_id;
  const auto event = next_event(tail, now() + kPatience);
  if (!event || check.note(*event) != first) throw std::runtime_error("the first lease event did not come");

  const auto events = options.latency_time.count() * options.events_per_second / 1000;
  Producers producers(connector, kTailed, static_cast<int>(events), options.events_per_second);
  std::unordered_map<std::int64_t, SteadyTime> delivered;
  delivered.reserve(static_cast<std::size_t>(events));
  std::optional<std::int64_t> newest;  // known when all have been committed; both readers deliver it last
  for (SteadyTime heard = now(); !newest || check.last() < *newest;) {
    if (const auto next = next_event(tail, now() + 50ms)) {
      heard = now();
      delivered.emplace(check.note(*next), heard);
    }
    if (now() - heard > kPatience) throw std::runtime_error("the last lease event did not come");
    if (!newest && producers.done()) newest = newest_lease_event(session);
  }
  const Latency result = latency_of(producers.finish(), delivered);
  if (result.missed != 0 && !Source::kMayMiss)
    throw std::runtime_error(std::to_string(result.missed) + " lease events were not delivered");
  return result;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.at(values.size() / 2);
}

// One reader's rounds.
class Series {
 public:
  template <class Source>
  void round(const pg::Connector& connector, const LeaseHistoryOptions& options,
             const std::vector<StoredEvents>& one, const std::vector<StoredEvents>& spread) {
    const Effort replayed = in_own_process([&] { return replay<Source>(connector, one); });
    const Effort spread_out = in_own_process([&] { return replay<Source>(connector, spread); });
    const Latency tailed = latency<Source>(connector, options);
    replay_.push_back(options.replay_events / replayed.seconds);
    spread_.push_back(options.replay_events / spread_out.seconds);
    resident_.push_back(replayed.resident_mib);
    p50_.push_back(tailed.p50_ms);
    p99_.push_back(tailed.p99_ms);
    committed_.push_back(tailed.committed_per_second);
    missed_ += tailed.missed;
  }

  ReaderFigures figures() const {
    return {.replay_events_per_second = median(replay_),
            .spread_events_per_second = median(spread_),
            .resident_mib = median(resident_),
            .latency_p50_ms = median(p50_),
            .latency_p99_ms = median(p99_),
            .committed_events_per_second = median(committed_),
            .missed = missed_};
  }

 private:
  std::vector<double> replay_, spread_, resident_, p50_, p99_, committed_;
  std::int64_t missed_ = 0;
};

}  // namespace

LeaseHistoryFigures measure_lease_history(const pg::Connector& connector,
                                          const LeaseHistoryOptions& options) {
  auto session = connector.connect(now() + kPatience);
  const auto one = add_lease_events(session, options.replay_events, kReplayed, 1);
  const auto spread = add_lease_events(session, options.replay_events, kSpread, kSpreadOver);
  session.close();
  Series ours, seed;
  for (int round = 0; round < options.rounds; ++round) {
    // Whoever comes second finds what the first has left in caches, so they take turns at that.
    if (round % 2 == 0) ours.round<Ours>(connector, options, one, spread);
    seed.round<Seeds>(connector, options, one, spread);
    if (round % 2 != 0) ours.round<Ours>(connector, options, one, spread);
  }
  return {ours.figures(), seed.figures()};
}

}  // namespace ff::bench
