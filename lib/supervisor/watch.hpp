#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "supervisor/availability.hpp"
#include "supervisor/observer.hpp"

namespace ff::supervisor {

/// Keeps an eye on the database from a thread of its own: looks, tells the observer and `changed` of each
/// change of state, logs it in one line, and looks again when Availability says or when somebody has doubts.
/// (A change of the reason alone is told to the observer only.) All members are safe from any thread.
class Watch {
 public:
  /// `look` may take as long as its own deadlines let it and does not throw; `changed` must not call back
  /// into the Watch's destructor.
  Watch(Milliseconds recovery_grace, std::function<Observation()> look, Observer& observer,
        const Clock& clock);
  ~Watch();

  /// `doubt_over` is called when a look that somebody had asked for changed nothing.
  void start(std::function<void()> changed, std::function<void()> doubt_over);
  /// No further look is begun.
  void request_stop();
  /// Ends the thread; a look under way is waited for.
  void stop();

  /// A statement failed in a way that may mean that the server is gone: look at once. Until that look has
  /// ended nothing may run: the server may be back already, and every lease lapsed.
  void doubt();

  /// The last look is no longer ago than it should be: else doubt() is in place.
  bool is_recent() const;
  bool may_run() const;
  bool may_take_leases() const;
  State state() const;
  std::string reason() const;

 private:
  void run(const std::stop_token& stop);
  void look_once(const std::stop_token& stop);

  const std::function<Observation()> look_;
  Observer& observer_;
  const Clock& clock_;
  std::function<void()> changed_;
  std::function<void()> doubt_over_;

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  Availability availability_;
  State told_ = State::starting;
  std::string told_reason_;
  bool told_authentication_ = false;
  bool doubted_ = false;   // a look is asked for
  bool doubtful_ = false;  // it has not ended yet
  std::jthread thread_;
};

}  // namespace ff::supervisor
