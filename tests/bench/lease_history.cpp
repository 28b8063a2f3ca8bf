#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>

#include "bench/backlog.hpp"
#include "bench/bench.hpp"
#include "bench/process_cost.hpp"
#include "bench/seed_reader.hpp"
#include "bench/sql_file.hpp"
#include "lease/history.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr PartitionKey kReplayed{0};
constexpr PartitionKey kSpread{1};
constexpr int kSpreadOver = 32;
constexpr PartitionKey kTailed{kSpread.value + kSpreadOver};
constexpr auto kPatience = 30s;
constexpr int kProducers = 8;
constexpr auto kHeadStart = 200ms;  // until all of them are connected

struct Options {
  int replay_events = 500'000;
  int events_per_second = 1000;
  Milliseconds latency_time{5000};
  int tailed_events() const { return static_cast<int>(events_per_second * latency_time / 1s); }
};

SteadyTime now() {
  return Clock::system().now();
}

/// What a reader of one partition has to find there, all of it.
struct StoredEvents {
  PartitionKey partition;
  std::int64_t after = 0;  ///< right before the first
  std::int64_t last = 0;
  std::int64_t count = 0;
};

/// Adds `count` lease events, dealt out over partitions `first` to `first` + `partitions` - 1.
std::vector<StoredEvents> add_lease_events(pg::Connection& connection, int count, PartitionKey first,
                                           int partitions) {
  const std::int32_t last = first.value + partitions - 1;
  connection.execute(sql("lease_events", "add"), pg::Params::of(count, std::int32_t{first.value}, partitions),
                     patiently());
  settle(connection, {"ff_lease_event"});
  std::vector<StoredEvents> stored;
  for (const pg::Row& row : connection.execute(sql("lease_events", "stored"),
                                               pg::Params::of(std::int32_t{first.value}, last), patiently()))
    stored.push_back({row.get<PartitionKey>(0), row.get<std::int64_t>(1), row.get<std::int64_t>(2),
                      row.get<std::int64_t>(3)});
  return stored;
}

/// 0: there is none.
std::int64_t newest_lease_event(pg::Connection& connection) {
  return connection.execute("SELECT coalesce(max(event_id), 0) FROM ff_lease_event")
      .one()
      .get<std::int64_t>(0);
}

struct Committed {
  std::int64_t event_id = 0;
  SteadyTime at;  ///< when its producer was told so
};

/// In a transaction that, as all producers of leases do, has an id of its own before it draws the event's.
Committed commit_lease_event(pg::Connection& connection) {
  connection.execute_script("BEGIN; SELECT pg_current_xact_id()");
  const auto added = connection.execute_prepared(sql("lease_events", "add one"),
                                                 pg::Params::of(std::int32_t{kTailed.value}));
  connection.execute_script("COMMIT");
  return {added.one().get<std::int64_t>(0), now()};
}

std::vector<Committed> produce(const pg::Connector& connector, SteadyTime first,
                               std::chrono::nanoseconds interval, int events) {
  auto connection = connect(connector);
  std::vector<Committed> committed;
  committed.reserve(static_cast<std::size_t>(events));
  for (int i = 0; i < events; ++i) {
    std::this_thread::sleep_until(first + i * interval);
    committed.push_back(commit_lease_event(connection));
  }
  return committed;
}

/// Sessions that together commit lease events into one partition at a steady rate, each event in its own transaction.
/// An event that is due while its session is busy is committed late; none is left out.
std::vector<std::future<std::vector<Committed>>> start_producers(const pg::Connector& connector,
                                                                 const Options& options) {
  const std::chrono::nanoseconds between = std::chrono::nanoseconds{1s} / options.events_per_second;
  const SteadyTime start = now() + kHeadStart;
  std::vector<std::future<std::vector<Committed>>> producers;
  for (int i = 0; i < kProducers; ++i) {
    const int share = (options.tailed_events() + kProducers - 1 - i) / kProducers;
    producers.push_back(std::async(std::launch::async, produce, std::cref(connector), start + i * between,
                                   kProducers * between, share));
  }
  return producers;
}

/// What a subscription delivers next; nothing: the deadline has passed.
using Tail = std::function<std::optional<lease::Event>(SteadyTime deadline)>;

/// A subscription to a partition, from behind an event.
using Subscribe = std::function<Tail(PartitionKey, std::int64_t after)>;

struct Reader {
  std::string name;
  bool may_miss;
  Subscribe (*start)(const pg::Connector&);
};

Subscribe start_ours(const pg::Connector& connector) {
  return [history = std::make_shared<lease::History>(connector)](PartitionKey partition,
                                                                 std::int64_t after) -> Tail {
    const lease::History::Request request{.partition = {partition}, .after = to_bytes(lease::Cursor{after})};
    // The history outlives its subscriptions.
    const auto tail = std::make_shared<std::pair<std::shared_ptr<lease::History>, lease::Subscription>>(
        history, history->subscribe(request));
    return [tail](SteadyTime deadline) -> std::optional<lease::Event> {
      while (auto delivery = tail->second.next(deadline))
        if (auto* event = std::get_if<lease::Event>(&*delivery)) return std::move(*event);
      return std::nullopt;
    };
  };
}

Subscribe start_seed(const pg::Connector& connector) {
  return [&connector](PartitionKey partition, std::int64_t after) -> Tail {
    const auto tail = std::make_shared<SeedReader>(connector, partition, after);
    return [tail](SteadyTime deadline) { return tail->next(deadline); };
  };
}

const Reader kOurs{"ours", false, start_ours};
const Reader kSeed{"seed", true, start_seed};

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

void consume(const Tail& tail, const StoredEvents& stored) {
  Check check(stored.partition, stored.after);
  while (check.last() < stored.last) {
    const auto event = tail(now() + kPatience);
    if (!event) break;
    check.note(*event);
  }
  if (check.count() != stored.count)
    throw std::runtime_error(std::to_string(check.count()) + " lease events were delivered instead of " +
                             std::to_string(stored.count));
}

/// What reading took.
struct Effort {
  double seconds = 0;
  double resident_mib = 0;  ///< by how much the process grew at its largest
};

// A consumer each for all these partitions.
Effort replay(const Reader& reader, const pg::Connector& connector, const std::vector<StoredEvents>& stored) {
  // The first connection of a process brings parts of libraries into memory that are not the reader's.
  auto session = connect(connector);
  newest_lease_event(session);
  session.close();
  Effort effort;
  effort.resident_mib = mib_grown_by([&] {
    const SteadyTime started = now();
    const auto subscribe = reader.start(connector);
    std::vector<std::future<void>> consumers;
    for (const StoredEvents& each : stored)
      consumers.push_back(std::async(
          std::launch::async, [&subscribe, &each] { consume(subscribe(each.partition, each.after), each); }));
    for (auto& consumer : consumers) consumer.get();
    effort.seconds = seconds_since(started);
  });
  return effort;
}

struct Latency {
  Distribution all{};
  double committed_per_second = 0;
  std::int64_t missed = 0;
};

Latency latency_of(const std::vector<Committed>& committed,
                   const std::unordered_map<std::int64_t, SteadyTime>& delivered) {
  Latency latency;
  for (const Committed& each : committed)
    if (const auto found = delivered.find(each.event_id); found != delivered.end())
      latency.all.add(std::chrono::duration<double, std::milli>(found->second - each.at).count());
  if (latency.all.size() != delivered.size())
    throw std::runtime_error("lease events were delivered that nobody committed");
  const auto [first, last] = std::ranges::minmax(committed, {}, &Committed::at);
  latency.committed_per_second =
      static_cast<double>(committed.size()) / std::chrono::duration<double>(last.at - first.at).count();
  latency.missed = static_cast<std::int64_t>(committed.size() - latency.all.size());
  return latency;
}

Latency latency(const Reader& reader, const pg::Connector& connector, const Options& options) {
  auto session = connect(connector);
  Check check(kTailed, newest_lease_event(session));
  const Tail tail = reader.start(connector)(kTailed, check.last());
  // Until this one is there the reader may still be connecting.
  const std::int64_t first = commit_lease_event(session).event_id;
  const auto event = tail(now() + kPatience);
  if (!event || check.note(*event) != first) throw std::runtime_error("the first lease event did not come");

  auto producers = start_producers(connector, options);
  const auto has_ended = [](const auto& each) { return each.wait_for(0s) == std::future_status::ready; };
  std::unordered_map<std::int64_t, SteadyTime> delivered;
  delivered.reserve(static_cast<std::size_t>(options.tailed_events()));
  std::optional<std::int64_t> newest;  // known when all have been committed;
                                       // both readers deliver it last
  for (SteadyTime heard = now(); !newest || check.last() < *newest;) {
    if (const auto next = tail(now() + 50ms)) {
      heard = now();
      delivered.emplace(check.note(*next), heard);
    }
    if (now() - heard > kPatience) throw std::runtime_error("the last lease event did not come");
    if (!newest && std::ranges::all_of(producers, has_ended)) newest = newest_lease_event(session);
  }
  std::vector<Committed> committed;
  for (auto& each : producers) std::ranges::copy(each.get(), std::back_inserter(committed));
  const Latency result = latency_of(committed, delivered);
  if (result.missed != 0 && !reader.may_miss)
    throw std::runtime_error(std::to_string(result.missed) + " lease events were not delivered");
  return result;
}

// One reader's rounds.
struct Series {
  explicit Series(const Reader& of) : reader(of), latency(of.name) {}

  void round(const pg::Connector& connector, const Options& options, const std::vector<StoredEvents>& one,
             const std::vector<StoredEvents>& spread) {
    const Effort replayed = replay(reader, connector, one);
    const Effort spread_out = replay(reader, connector, spread);
    const Latency tailed = bench::latency(reader, connector, options);
    replays.rounds.push_back(options.replay_events / replayed.seconds);
    spreads.rounds.push_back(options.replay_events / spread_out.seconds);
    resident_mib.push_back(replayed.resident_mib);
    latency.add(tailed.all);
    committed_per_second.push_back(tailed.committed_per_second);
    missed += tailed.missed;
  }

  const Reader& reader;
  Rounds latency;
  Way replays{reader.name}, spreads{reader.name};
  std::vector<double> resident_mib, committed_per_second;
  std::int64_t missed = 0;  // committed and never delivered, in all rounds
};

std::vector<Findings> findings(const Options& options, const Series& ours, const Series& seed) {
  Findings latency{
      .regime = "lease_latency",
      .ways = {ours.latency.way(0.5), seed.latency.way(0.5), ours.latency.way(0.99), seed.latency.way(0.99)},
      .numbers = {{"per_second", options.events_per_second},
                  {"seconds", seconds(options.latency_time)},
                  {"ours_missed", static_cast<double>(ours.missed)},
                  {"seed_missed", static_cast<double>(seed.missed)},
                  {"ours_committed", median(ours.committed_per_second)},
                  {"seed_committed", median(seed.committed_per_second)}}};
  return {{.regime = "lease_replay",
           .ways = {ours.replays, seed.replays},
           .numbers = {{"events", options.replay_events},
                       {"ours_mib", median(ours.resident_mib)},
                       {"seed_mib", median(seed.resident_mib)}}},
          {.regime = "lease_spread",
           .ways = {ours.spreads, seed.spreads},
           .numbers = {{"events", options.replay_events}, {"spread_over", kSpreadOver}}},
          std::move(latency)};
}

}  // namespace

std::vector<Findings> measure_lease_history(const Bench& bench) {
  Options options;
  if (bench.quick) options = {.replay_events = 50'000, .latency_time = 1s};
  auto session = connect(bench.connector);
  const auto one = add_lease_events(session, options.replay_events, kReplayed, 1);
  const auto spread = add_lease_events(session, options.replay_events, kSpread, kSpreadOver);
  session.close();
  Series ours(kOurs), seed(kSeed);
  take_turns(bench.rounds(), {[&] { ours.round(bench.connector, options, one, spread); },
                              [&] { seed.round(bench.connector, options, one, spread); }});
  session = connect(bench.connector);
  empty(session);
  return findings(options, ours, seed);
}

}  // namespace ff::bench
