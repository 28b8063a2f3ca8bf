#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "config/config.hpp"
#include "database_probe.hpp"
#include "http_server.hpp"
#include "log_actions.hpp"
#include "metrics/metrics.hpp"
#include "page/page.hpp"
#include "pause_watch.hpp"
#include "pg/pool.hpp"
#include "pg/snapshot_watch.hpp"
#include "reconcile/engine.hpp"
#include "release_watch.hpp"
#include "status_board.hpp"
#include "storm_watch.hpp"
#include "supervisor/notifications.hpp"
#include "supervisor/supervisor.hpp"
#include "supervisor/thread_fork_join.hpp"

namespace ff::daemon {

/// The composition root: every part of the running daemon, made from a configuration and wired together here
/// and nowhere else. It knows no signals and no service manager, so that `run` and `demo` use the same.
///
/// start() and stop() are called once each, from one thread; the rest is safe from any.
class Daemon {
 public:
  /// Listens for HTTP at once. Throws std::runtime_error when that fails.
  /// `config_file`: where the configuration came from, for lines to paste; empty: from no file.
  explicit Daemon(config::Config config, std::string config_file = {});
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  void start();
  /// Finishes running batches within the configured grace, then cancels and rolls back.
  void stop();

  /// Takes over what can change in place; returns the keys that want a restart.
  std::vector<std::string> reload(config::Config wanted);
  void reload_failed();

  Milliseconds grace() const { return config_.shutdown.grace; }
  bool alive() const { return supervisor_.alive(); }
  const StatusBoard& board() const { return board_; }
  unsigned short http_port() const { return http_port_; }

 private:
  /// Passes everything on to metrics, board and chronicle.
  struct Observers final : supervisor::Observer {
    Observers(metrics::Metrics& to_metrics, StatusBoard& to_board, page::Chronicle& to_chronicle)
        : metrics(to_metrics), board(to_board), chronicle(to_chronicle) {}
    void tick_started(const supervisor::TickStart& start) override;
    void tick_finished(const supervisor::TickEvent& event) override;
    void state_changed(supervisor::State state, const std::string& reason) override;
    void schema_version(int version) override;
    void pauses_changed(const std::vector<pause::Pause>& in_force) override;
    void pauses_unread(const std::string& why) override;
    metrics::Metrics& metrics;
    StatusBoard& board;
    page::Chronicle& chronicle;
  };
  /// One reconciler: its engine, and the runner that ticks it.
  struct Member {
    Member(const reconcile::Reconciler& reconciler, const reconcile::Scope& scope, supervisor::Timing timing,
           Daemon& daemon);
    reconcile::TickReport tick(Daemon& daemon, reconcile::TickOptions options);
    static void suspect_lock(Daemon& daemon, const pg::Error& failure);
    bool none_announced(const reconcile::Reconciler& pair, const supervisor::Notifications& notifications,
                        SteadyTime since) const;
    reconcile::Engine engine;
    supervisor::Runner runner;
    std::atomic<bool> was_off{false};  // since its engine last heard of the configuration
  };

  /// What the pool tells.
  struct PoolEvents final : pg::PoolObserver {
    explicit PoolEvents(Daemon& its_daemon) : daemon(its_daemon) {}
    void waited(std::chrono::duration<double> for_connection) override {
      daemon.metrics_.waited(for_connection);
    }
    void acquire_timed_out() override { daemon.metrics_.acquire_timed_out(); }
    void connected(const pg::Error* failure) override { daemon.metrics_.connected(failure); }
    // The next connection may be to a server that was away, or to another: no lease is taken until the monitor has checked.
    void server_in_doubt() override { daemon.monitor_.check_now(); }
    Daemon& daemon;
  };

  /// What the configured partitions come to is known, or has changed.
  void set_coverage(const Coverage& coverage);
  void tell_members();  // under mutex_
  void pauses_changed(const std::vector<pause::Pause>& in_force);
  void read_storm(pg::Connection& connection);

  std::vector<std::unique_ptr<Member>> make_members();
  std::vector<supervisor::Runner*> runners() const;
  Routes routes();
  page::Model page_model();
  std::optional<UnixMillis> recovering_until() const;
  /// The status page; with `renewed_every` the browser asks for it again by itself.
  HttpReply page(std::optional<Milliseconds> renewed_every = std::nullopt);

  const Clock& clock_ = Clock::system();
  /// The one it started with, which counts for whatever wants a restart.
  const config::Config config_;
  const std::string config_file_;
  std::mutex mutex_;
  config::Config current_;       // what of it can be reloaded counts; guarded by mutex_
  Partitions covered_;           // guarded by mutex_
  bool reload_refused_ = false;  // the last one; guarded by mutex_
  metrics::Metrics metrics_;
  StatusBoard board_;
  ActionLog action_log_;
  page::Chronicle chronicle_;
  Observers observers_;
  pg::Interrupt interrupt_;
  pg::Connector connector_;
  PoolEvents pool_events_{*this};
  pg::Pool pool_;
  pg::SnapshotWatch snapshots_;
  supervisor::Pauses pauses_{clock_};
  PauseWatch pause_watch_{pauses_,
                          clock_,
                          {.changed = [this](const auto& in_force) { pauses_changed(in_force); },
                           .released = [this] { supervisor_.reconsider_parked(); },
                           .unread = [this](const std::string& why) { observers_.pauses_unread(why); }}};
  reconcile::Storm storm_;
  StormWatch storm_watch_{storm_, clock_};
  supervisor::Releases releases_;
  ReleaseWatch release_watch_{releases_};
  DatabaseProbe probe_;
  supervisor::Monitor monitor_;
  supervisor::Notifications notifications_;
  supervisor::ThreadForkJoin fork_join_;
  std::vector<std::unique_ptr<Member>> members_;
  supervisor::Supervisor supervisor_;

  boost::asio::io_context http_io_{1};
  HttpServer http_;
  const unsigned short http_port_;
  std::jthread http_thread_;
};

}  // namespace ff::daemon
