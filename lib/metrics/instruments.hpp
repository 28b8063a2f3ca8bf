#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/metrics.hpp"
#include "metrics/process.hpp"

namespace ff::metrics {

/// A counter for each value of one label. The values known from the start exist at 0; another one gets its
/// counter when it first occurs. Not thread-safe.
class CounterSet {
 public:
  /// `fixed`: the labels that all of the set have in common.
  CounterSet(prometheus::Family<prometheus::Counter>& family, prometheus::Labels fixed, std::string label,
             std::span<const std::string_view> values);

  void add(std::string_view value, std::int64_t count);

 private:
  prometheus::Counter& resolve(std::string_view value);

  prometheus::Family<prometheus::Counter>& family_;
  const prometheus::Labels fixed_;
  const std::string label_;
  std::map<std::string, prometheus::Counter*, std::less<>> counters_;
};

/// The families that have a label `reconciler`.
struct ReconcilerFamilies {
  explicit ReconcilerFamilies(prometheus::Registry& registry);

  prometheus::Family<prometheus::Counter>& processed;
  prometheus::Family<prometheus::Counter>& errors;
  prometheus::Family<prometheus::Counter>& skipped;
  prometheus::Family<prometheus::Counter>& ticks;
  prometheus::Family<prometheus::Counter>& ticks_missed;
  prometheus::Family<prometheus::Histogram>& tick_duration;
  prometheus::Family<prometheus::Histogram>& tick_start_delay;
  prometheus::Family<prometheus::Histogram>& row_lateness;
  prometheus::Family<prometheus::Gauge>& running_since;
  prometheus::Family<prometheus::Gauge>& last_success;
  prometheus::Family<prometheus::Gauge>& consecutive_failures;
  prometheus::Family<prometheus::Gauge>& due_rows;
  prometheus::Family<prometheus::Gauge>& more_due;
  prometheus::Family<prometheus::Gauge>& oldest_due;
  prometheus::Family<prometheus::Gauge>& next_due;
  prometheus::Family<prometheus::Gauge>& quarantined;
  prometheus::Family<prometheus::Gauge>& paused;
  prometheus::Family<prometheus::Gauge>& held;
};

/// Those of one reconciler, resolved, so that an event builds no labels.
struct ReconcilerInstruments {
  ReconcilerInstruments(const ReconcilerFamilies& families, const std::string& name,
                        std::span<const std::string_view> outcomes);

  void observe_lateness(const reconcile::Lateness& lateness);
  /// What is known to be due now: what the last scan has left, or what the tick under way has found and not moved.
  void show_due();
  /// Of what the last tick saw.
  void clear_gauges();

  CounterSet processed;
  CounterSet errors;
  CounterSet skipped;
  CounterSet ticks;
  prometheus::Counter& ticks_missed;
  prometheus::Histogram& tick_duration;
  prometheus::Histogram& tick_start_delay;
  prometheus::Histogram& row_lateness;
  prometheus::Gauge& running_since;
  prometheus::Gauge& last_success;
  prometheus::Gauge& consecutive_failures;
  prometheus::Gauge& due_rows;
  prometheus::Gauge& more_due;
  prometheus::Gauge& oldest_due;
  prometheus::Gauge& next_due;
  prometheus::Gauge& quarantined;
  prometheus::Gauge& paused;
  prometheus::Gauge& held;
  bool enabled = true;
  bool is_paused = false;
  bool is_held = false;
  const reconcile::Progress* under_way = nullptr;  ///< null: no tick is
  std::int64_t left = 0;                           ///< due rows that the tick of the last scan has left
  bool more = false;                               ///< the last scan did not read all that is due
  bool companions_more = false;                    ///< nor did that of the companions
};

/// What is to be seen of storm control.
struct StormInstruments {
  StormInstruments(prometheus::Registry& registry, const Description& description);

  void set(const reconcile::StormView& view);

  std::map<reconcile::Breaker::State, prometheus::Gauge*> states;
  prometheus::Gauge* switched_off = nullptr;
  prometheus::Gauge& rate;
  prometheus::Family<prometheus::Gauge>& queued_rows;
  std::map<std::string, prometheus::Gauge*, std::less<>> queued;
  prometheus::Gauge& held;
  prometheus::Gauge& leases;
  prometheus::Gauge& leases_lapsed_share;
  prometheus::Gauge& holders_lapsed_share;
  prometheus::Counter& trips;
  std::map<std::string, prometheus::Counter*, std::less<>> releases;
};

/// Every instrument of the daemon. What a comment calls guarded is used under that mutex only; the rest is
/// thread-safe by itself.
struct Instruments {
  explicit Instruments(const Description& description);

  /// Under the mutex. Makes what is not there yet.
  ReconcilerInstruments& of(std::string_view reconciler);

  /// Under the mutex, as is the next. Nothing happens unless gauges by partition are wanted. These exist for the
  /// covered partitions and no others.
  void set_partitions(const Partitions& covered);
  /// What a scan has seen; 0 where nothing was due.
  void set_oldest_due(std::string_view reconciler, const std::map<PartitionKey, UnixMillis>& by_partition);

  prometheus::Registry registry;
  ProcessCollector process;

  std::mutex mutex;
  ReconcilerFamilies families;                                            // guarded by mutex
  std::map<std::string, ReconcilerInstruments, std::less<>> reconcilers;  // guarded by mutex
  CounterSet connects;                                                    // guarded by mutex
  CounterSet database_errors;                                             // guarded by mutex
  prometheus::Family<prometheus::Gauge>* oldest_due_in = nullptr;  // guarded by mutex; null: not wanted
  std::map<std::string, std::map<PartitionKey, prometheus::Gauge*>, std::less<>>
      oldest_due_gauges;  // guarded by mutex

  // Apart from the other, because the pool's own lock is taken under it.
  std::mutex pool_mutex;
  std::function<pg::PoolState()> pool_state;         // guarded by pool_mutex
  std::function<reconcile::StormView()> storm_view;  // guarded by pool_mutex, as is the next
  StormInstruments storm;

  prometheus::Family<prometheus::Gauge>& connections;
  prometheus::Gauge& connections_idle;
  prometheus::Gauge& connections_in_use;
  prometheus::Gauge& connections_max;
  prometheus::Histogram& pool_wait;
  prometheus::Counter& pool_timeouts;
  prometheus::Gauge& writable;
  prometheus::Gauge& lease_held_back;
  prometheus::Counter& lease_delivered;
  prometheus::Counter& lease_reconnects;
  prometheus::Counter& http_displaced;
  prometheus::Gauge& ready;
  prometheus::Gauge& pauses_unread;
  std::map<supervisor::State, prometheus::Gauge*> states;
  prometheus::Gauge& schema_version;
  prometheus::Family<prometheus::Gauge>& partitions;
  prometheus::Gauge& partitions_covered;
  prometheus::Gauge& partitions_left_out;
  prometheus::Gauge& reload_successful;
  prometheus::Gauge& reload_success_time;
  prometheus::Gauge& config_hash;
};

}  // namespace ff::metrics
