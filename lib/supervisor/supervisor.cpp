#include "supervisor/supervisor.hpp"

#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>

#include "supervisor/random.hpp"

namespace ff::supervisor {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr Milliseconds kHeartbeat = 1s;
// Replicas that start together, and reconcilers of one process, spread their first ticks over this long.
constexpr Milliseconds kFirstTickWithin = 200ms;

}  // namespace

/// Threads that run what is posted. (asio::thread_pool waits for ever for those it has when it cannot have all.)
class Threads {
 public:
  explicit Threads(int count) : io_(count) {
    for (int i = 1; i <= count; ++i) {
      try {
        threads_.emplace_back([this] { io_.run(); });
      } catch (const std::system_error& error) {
        io_.stop();
        throw std::system_error(error.code(), "thread " + std::to_string(i) + " of " + std::to_string(count) +
                                                  " for the reconcilers cannot be made");
      }
    }
  }
  ~Threads() { io_.stop(); }

  asio::io_context& io() { return io_; }
  void stop() { io_.stop(); }
  /// Waits until there is nothing left to run.
  void join() {
    work_.reset();
    threads_.clear();
  }

 private:
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::vector<std::jthread> threads_;
};

struct Supervisor::Scheduler {
  /// A runner and its timer, both touched on the strand only.
  struct Slot {
    Slot(asio::io_context& io, Runner& its) : strand(asio::make_strand(io)), timer(strand), runner(its) {}
    asio::strand<asio::io_context::executor_type> strand;
    asio::steady_timer timer;
    Runner& runner;
    SteadyTime planned{};
    bool parked = true;  // has no timer
  };

  Scheduler(const std::vector<Runner*>& runners, int threads, Monitor& its_monitor, Milliseconds longest,
            const Clock& its_clock, const Pauses* its_pauses)
      : pool(threads),
        heartbeat(asio::make_strand(pool.io())),
        monitor(its_monitor),
        clock(its_clock),
        pauses(its_pauses),
        stall_after(longest + 5 * kHeartbeat),
        progress(clock.now().time_since_epoch().count()) {
    for (Runner* runner : runners) slots.push_back(std::make_unique<Slot>(pool.io(), *runner));
  }

  bool may_run(const Runner& runner) const {
    return !stop.stop_requested() && runner.timing().enabled &&
           (pauses == nullptr || !pauses->hold(runner.name())) &&
           (runner.takes_leases() ? monitor.may_take_leases() : monitor.may_run());
  }

  void arm(Slot& slot, SteadyTime at) {
    slot.planned = at;
    slot.parked = false;
    slot.timer.expires_at(at);
    slot.timer.async_wait([this, &slot](const boost::system::error_code& error) {
      if (!error) run(slot);
    });
  }

  // Where only what is parked is armed, a pause after a failure is kept. Else what was known may be of another server, or by a
  // clock that has been set.
  void arm_all(bool only_parked) {
    for (auto& slot : slots) {
      const auto spread = std::chrono::duration_cast<Milliseconds>(kFirstTickWithin * random_share());
      asio::post(slot->strand, [this, only_parked, spread, &its = *slot] {
        if (!only_parked) its.runner.wake();
        if (may_run(its.runner) && (its.parked || !only_parked)) arm(its, clock.now() + spread);
      });
    }
  }

  // A runner that may not run is parked without a timer; arm_all() arms it again.
  void run(Slot& slot) {
    {
      // In one step, so that drain() either keeps it from running or waits for it.
      const std::lock_guard lock(mutex);
      slot.parked = !may_run(slot.runner);
      if (!slot.parked) running.insert(slot.runner.name());
    }
    if (slot.parked) {
      if (!monitor.is_recent()) monitor.check_now();  // nothing else would tell when it may run again
      return;
    }
    mark_progress();
    const Runner::Step step = slot.runner.step(slot.planned, stop.get_token());
    mark_progress();
    {
      const std::lock_guard lock(mutex);
      running.erase(slot.runner.name());
    }
    stopped_running.notify_all();
    if (step.check_database) monitor.check_now();
    for (const std::string_view name : step.wakes) wake(name);
    if (!stop.stop_requested()) arm(slot, step.next);
  }

  void wake(std::string_view name) {
    for (auto& slot : slots)
      if (slot->runner.name() == name)
        asio::post(slot->strand, [this, &its = *slot] {
          its.runner.wake();
          if (may_run(its.runner)) arm(its, clock.now());
        });
  }

  void beat() {
    mark_progress();
    heartbeat.expires_after(kHeartbeat);
    heartbeat.async_wait([this](const boost::system::error_code& error) {
      if (!error && !stop.stop_requested()) beat();
    });
  }

  void mark_progress() { progress = clock.now().time_since_epoch().count(); }

  Threads pool;
  asio::steady_timer heartbeat;  // with a strand of its own
  Monitor& monitor;
  const Clock& clock;
  const Pauses* const pauses;
  const Milliseconds stall_after;
  std::atomic<SteadyTime::rep> progress;
  std::stop_source stop;
  std::vector<std::unique_ptr<Slot>> slots;

  std::mutex mutex;
  std::condition_variable stopped_running;
  std::set<std::string> running;
};

Supervisor::Supervisor(const std::vector<Runner*>& runners, int threads, Monitor& monitor,
                       Milliseconds longest_tick, const Clock& clock, const Pauses* pauses)
    : scheduler_(std::make_unique<Scheduler>(runners, threads, monitor, longest_tick, clock, pauses)) {}

Supervisor::~Supervisor() {
  scheduler_->stop.request_stop();
  scheduler_->monitor.stop();  // it calls us
  scheduler_->pool.stop();
  scheduler_->pool.join();
}

void Supervisor::start() {
  asio::post(scheduler_->heartbeat.get_executor(), [scheduler = scheduler_.get()] { scheduler->beat(); });
  scheduler_->monitor.start([this] { reconsider(); }, [this] { reconsider_parked(); });
}

void Supervisor::reconsider() {
  scheduler_->arm_all(false);
}

void Supervisor::reconsider_parked() {
  scheduler_->arm_all(true);
}

std::vector<std::string> Supervisor::drain(SteadyTime deadline) {
  scheduler_->stop.request_stop();
  scheduler_->monitor.request_stop();
  for (auto& slot : scheduler_->slots) asio::post(slot->strand, [&slot = *slot] { slot.timer.cancel(); });
  asio::post(scheduler_->heartbeat.get_executor(),
             [scheduler = scheduler_.get()] { scheduler->heartbeat.cancel(); });
  std::unique_lock lock(scheduler_->mutex);
  scheduler_->stopped_running.wait_until(lock, deadline, [&] { return scheduler_->running.empty(); });
  return {scheduler_->running.begin(), scheduler_->running.end()};
}

void Supervisor::join() {
  scheduler_->monitor.stop();
  scheduler_->pool.join();
}

bool Supervisor::alive() const {
  SteadyTime progress{SteadyTime::duration{scheduler_->progress}};
  for (const auto& slot : scheduler_->slots) progress = std::max(progress, slot->runner.answered());
  return scheduler_->clock.now() - progress < scheduler_->stall_after;
}

}  // namespace ff::supervisor
