#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/partition_choice.hpp"
#include "base/time.hpp"
#include "lease/observer.hpp"
#include "pg/pool.hpp"
#include "supervisor/observer.hpp"

namespace ff::metrics {

struct Instruments;

/// What Metrics::scrape() returns, as HTTP names it.
inline constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

/// What is known before anything happens, so that every label set exists from the start.
struct Description {
  struct Reconciler {
    std::string name;
    std::vector<std::string> outcomes;
  };
  struct Build {
    std::string version;
    std::string revision;
    std::string compiler;
    std::string libpq_version;
  };

  std::vector<Reconciler> reconcilers;
  Build build;
  int pool_size = 0;
  bool per_partition = false;  ///< with the gauges that have a label for the partition
  std::uint64_t config_hash = 0;
  std::string partitions = {};                ///< as they are configured
  std::vector<std::string> giving_back = {};  ///< the reconcilers that storm control holds to a rate
};

/// The daemon's metrics: hears of events as an observer of the supervisor, of the pool and of the lease
/// history, and writes them as text for Prometheus. Safe from any thread. What was not described (a
/// reconciler, an outcome) is counted all the same, from its first event on.
///
/// It is made when a configuration has been loaded, and so starts with a successful reload.
class Metrics final : public supervisor::Observer, public pg::PoolObserver, public lease::HistoryObserver {
 public:
  /// The clock must outlive this.
  explicit Metrics(const Description& description, const Clock& clock = Clock::system());
  ~Metrics() override;
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void tick_started(const supervisor::TickStart& start) noexcept override;
  void tick_finished(const supervisor::TickEvent& event) noexcept override;
  void state_changed(supervisor::State state, const std::string& reason) noexcept override;
  void schema_version(int version) noexcept override;
  /// What one that is paused saw last is over, as of one that is switched off.
  void pauses_changed(const std::vector<pause::Pause>& in_force) noexcept override;
  void pauses_unread(const std::string& why) noexcept override;

  void waited(std::chrono::duration<double> for_connection) noexcept override;
  void acquire_timed_out() noexcept override;
  void connected(const pg::Error* failure) noexcept override;

  void lease_event_delivered() noexcept override;
  void lease_history_reconnected() noexcept override;
  void lease_history_held_back(Milliseconds since) noexcept override;

  /// For what the daemon itself meets in the database, outside the ticks and beside connecting (its probe of
  /// the server, the check of the schema).
  void database_error(const pg::Error& error) noexcept;

  /// Which partitions this daemon looks after, of those that the database has.
  void partitions(const Coverage& coverage) noexcept;

  /// Whether a reconciler is switched on. What one that is off saw last is over: its gauges are 0, also when its last
  /// tick ends only afterwards.
  void reconciler_enabled(std::string_view reconciler, bool enabled) noexcept;

  /// A re-reading of the configuration ended, with what it has for a hash; nothing: it failed, and the earlier
  /// configuration stays.
  void config_reloaded(std::optional<std::uint64_t> hash) noexcept;

  /// The HTTP server has closed a connection to make place for another.
  void http_connection_displaced() noexcept;

  /// Where each scrape gets the number of connections from. Whatever it uses must live until it is replaced;
  /// an empty function ends it, and the connections then count as none.
  void watch_pool(std::function<pg::PoolState()> state);

  /// The same of storm control.
  void watch_storm(std::function<reconcile::StormView()> view);

  /// Everything as it is now, as text of the type kContentType.
  std::string scrape() const;

 private:
  const Clock& clock_;
  const std::unique_ptr<Instruments> instruments_;
};

}  // namespace ff::metrics
