#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "reconcile/server_clock.hpp"
#include "supervisor/availability.hpp"
#include "supervisor/observer.hpp"

namespace ff::supervisor {

/// Checks the database from a thread of its own: tells the observer and `changed` of each change of state, logs it in
/// one line, and checks again when Availability says or when somebody asks for it. (A change of the reason alone is told
/// to the observer, and logged once a minute at most.) All members are safe from any thread.
class Monitor {
 public:
  /// `check` may take as long as its own deadlines let it and does not throw; `changed` must not call back
  /// into the Monitor's destructor.
  Monitor(Milliseconds recovery_grace, std::function<Observation()> check, Observer& observer,
          const Clock& clock);
  ~Monitor();

  /// `confirmed` is called when a check changed nothing: who was parked because the last one was too long ago, or what was
  /// read along with it, may run again.
  void start(std::function<void()> changed, std::function<void()> confirmed);
  /// No further check is begun.
  void request_stop();
  /// Ends the thread; a check under way is waited for.
  void stop();

  /// A statement failed in a way that may mean that the server is gone: check at once. Until that check has
  /// ended nothing may run: the server may be back already, and every lease lapsed.
  void check_now();
  /// Where by this the database's clock was set forward, the same as check_now(), and
  /// then recovery grace: all leases have lapsed by it.
  void told_time(const reconcile::TimeReading& reading);
  /// Somebody who would have taken leases has met a table that is locked: the workers may have met it, too, and get
  /// recovery grace. The next check comes soon.
  void met_lock();
  /// Somebody could not take leases, because the server's disk is full. So it is until found_room() is called, which says no
  /// the first time: then the workers' recovery grace begins.
  void met_full_disk();
  bool found_room();
  /// Something is to be read that goes with a check. Meanwhile what runs goes on.
  void check_soon();

  /// The last check is no longer ago than it should be: else check_now() is in place.
  bool is_recent() const;
  bool may_run() const;
  bool may_take_leases() const;
  /// For how much longer no leases are taken, if nothing else happens. Nothing: not because it recovers.
  std::optional<Milliseconds> recovering_for() const;

 private:
  void run(const std::stop_token& stop);
  void check_once(const std::stop_token& stop);
  void add_recovery(Observation& seen) const;
  void log(State state, const Observation& seen, bool is_new);

  const std::function<Observation()> check_;
  Observer& observer_;
  const Clock& clock_;
  std::function<void()> changed_;
  std::function<void()> confirmed_;

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  Availability availability_;
  reconcile::ServerClock server_clock_;
  State told_ = State::starting;
  std::string told_reason_;
  bool told_authentication_ = false;
  bool clock_was_set_ = false;  // noticed since the last check
  bool check_wanted_ = false;   // it was asked for
  bool soon_wanted_ = false;    // likewise, without a doubt about the server
  bool unchecked_ = false;      // it has not ended yet
  std::string logged_reason_;   // both of the thread only
  SteadyTime logged_at_{};
  std::jthread thread_;
};

}  // namespace ff::supervisor
