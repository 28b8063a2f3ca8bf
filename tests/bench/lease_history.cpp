#include "bench/lease_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "bench/backlog.hpp"
#include "bench/compare.hpp"
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

struct Options {
  int replay_events = 500'000;
  int events_per_second = 1000;
  Milliseconds latency_time{5000};
};

SteadyTime now() {
  return Clock::system().now();
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
Latency latency(const pg::Connector& connector, const Options& options) {
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

// One reader's rounds.
struct Series {
  template <class Source>
  void round(const pg::Connector& connector, const Options& options, const std::vector<StoredEvents>& one,
             const std::vector<StoredEvents>& spread) {
    const Effort replayed = in_own_process([&] { return replay<Source>(connector, one); });
    const Effort spread_out = in_own_process([&] { return replay<Source>(connector, spread); });
    const Latency tailed = latency<Source>(connector, options);
    replay_rates.push_back(options.replay_events / replayed.seconds);
    spread_rates.push_back(options.replay_events / spread_out.seconds);
    resident_mib.push_back(replayed.resident_mib);
    p50_ms.push_back(tailed.p50_ms);
    p99_ms.push_back(tailed.p99_ms);
    committed_per_second.push_back(tailed.committed_per_second);
    missed += tailed.missed;
  }

  std::vector<double> replay_rates, spread_rates, resident_mib, p50_ms, p99_ms, committed_per_second;
  std::int64_t missed = 0;  // committed and never delivered, in all rounds
};

std::vector<Regime> regimes(const Options& options, const Series& ours, const Series& seed) {
  Regime replay{
      .name = "lease_replay",
      .title = fmt::format("lease history: {} events of one partition, from subscribing to the last one",
                           figure(options.replay_events)),
      .unit = "events/s",
      .ways = {{"ours", ours.replay_rates}, {"seed", seed.replay_rates}}};
  replay.remarks = {fmt::format("the process grew by {} MiB with ours, by {} MiB with the seed's way",
                                figure(median(ours.resident_mib)), figure(median(seed.resident_mib)))};
  Regime spread{
      .name = "lease_spread",
      .title = fmt::format("lease history: {} events of {} partitions, a subscription and a consumer each",
                           figure(options.replay_events), kSpreadOver),
      .unit = "events/s",
      .ways = {{"ours", ours.spread_rates}, {"seed", seed.spread_rates}}};
  Regime latency{.name = "lease_latency",
                 .title = fmt::format("lease history: from commit to delivery, {} events a second for {} s",
                                      figure(options.events_per_second), seconds(options.latency_time)),
                 .unit = "ms",
                 .ways = {{"ours, p50", ours.p50_ms},
                          {"seed, p50", seed.p50_ms},
                          {"ours, p99", ours.p99_ms},
                          {"seed, p99", seed.p99_ms}}};
  latency.remarks = {
      fmt::format("never delivered: {} events with ours, {} with the seed's way", ours.missed, seed.missed),
      fmt::format("committed meanwhile: {} events a second with ours, {} with the seed's way",
                  figure(median(ours.committed_per_second)), figure(median(seed.committed_per_second))),
      "the server wakes the listeners before it answers the producer: a latency may be negative"};
  return {std::move(replay), std::move(spread), std::move(latency)};
}

}  // namespace

std::vector<Regime> measure_lease_history(const Bench& bench) {
  Options options;
  if (bench.quick) options = {.replay_events = 50'000, .latency_time = 1s};
  auto session = bench.connector.connect(now() + kPatience);
  const auto one = add_lease_events(session, options.replay_events, kReplayed, 1);
  const auto spread = add_lease_events(session, options.replay_events, kSpread, kSpreadOver);
  session.close();
  Series ours, seed;
  for (int round = 0; round < bench.rounds(); ++round) {
    // Whoever comes second finds what the first has left in caches, so they take turns at that.
    if (round % 2 == 0) ours.round<Ours>(bench.connector, options, one, spread);
    seed.round<Seeds>(bench.connector, options, one, spread);
    if (round % 2 != 0) ours.round<Ours>(bench.connector, options, one, spread);
  }
  session = bench.connector.connect(now() + kPatience);
  empty_tables(session);
  return regimes(options, ours, seed);
}

}  // namespace ff::bench
