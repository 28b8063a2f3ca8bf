#include "supervisor/supervisor.hpp"

#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <condition_variable>
#include <mutex>
#include <set>

#include "supervisor/random.hpp"

namespace ff::supervisor {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr Milliseconds kHeartbeat = 1s;
// Replicas that start together, and reconcilers of one process, spread their first ticks over this long.
constexpr Milliseconds kFirstTickWithin = 200ms;

}  // namespace

struct Supervisor::Life {
  /// A runner and its timer, both touched on the strand only.
  struct Slot {
    Slot(asio::thread_pool& pool, Runner& its)
        : strand(asio::make_strand(pool)), timer(strand), runner(its) {}
    asio::strand<asio::thread_pool::executor_type> strand;
    asio::steady_timer timer;
    Runner& runner;
    SteadyTime planned{};
    bool parked = true;  // has no timer
  };

  Life(const std::vector<Runner*>& runners, int threads, Watch& its_watch, Milliseconds longest,
       const Clock& its_clock)
      : pool(static_cast<std::size_t>(threads)),
        heartbeat(asio::make_strand(pool)),
        watch(its_watch),
        clock(its_clock),
        stall_after(longest + 5 * kHeartbeat),
        progress(clock.now().time_since_epoch().count()) {
    for (Runner* runner : runners) slots.push_back(std::make_unique<Slot>(pool, *runner));
  }

  bool may_run(const Runner& runner) const {
    return !stop.stop_requested() && runner.pace().enabled &&
           (runner.takes_leases() ? watch.may_take_leases() : watch.may_run());
  }

  void arm(Slot& slot, SteadyTime at) {
    slot.planned = at;
    slot.parked = false;
    slot.timer.expires_at(at);
    slot.timer.async_wait([this, &slot](const boost::system::error_code& error) {
      if (!error) run(slot);
    });
  }

  // Where only what is parked is armed, a pause after a failure is kept.
  void arm_all(bool only_parked) {
    for (auto& slot : slots) {
      const auto spread = std::chrono::duration_cast<Milliseconds>(kFirstTickWithin * random_share());
      asio::post(slot->strand, [this, only_parked, spread, &its = *slot] {
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
      if (!watch.is_recent()) watch.doubt();  // nothing else would tell when it may run again
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
    if (step.doubtful) watch.doubt();
    if (!stop.stop_requested()) arm(slot, step.next);
  }

  void beat() {
    mark_progress();
    heartbeat.expires_after(kHeartbeat);
    heartbeat.async_wait([this](const boost::system::error_code& error) {
      if (!error && !stop.stop_requested()) beat();
    });
  }

  void mark_progress() { progress = clock.now().time_since_epoch().count(); }

  asio::thread_pool pool;
  asio::steady_timer heartbeat;  // with a strand of its own
  Watch& watch;
  const Clock& clock;
  const Milliseconds stall_after;
  std::atomic<SteadyTime::rep> progress;
  std::stop_source stop;
  std::vector<std::unique_ptr<Slot>> slots;

  std::mutex mutex;
  std::condition_variable stopped_running;
  std::set<std::string> running;
};

Supervisor::Supervisor(const std::vector<Runner*>& runners, int threads, Watch& watch,
                       Milliseconds longest_tick, const Clock& clock)
    : life_(std::make_unique<Life>(runners, threads, watch, longest_tick, clock)) {}

Supervisor::~Supervisor() {
  life_->stop.request_stop();
  life_->watch.stop();  // it calls us
  life_->pool.stop();
  life_->pool.join();
}

void Supervisor::start() {
  asio::post(life_->heartbeat.get_executor(), [life = life_.get()] { life->beat(); });
  life_->watch.start([this] { reconsider(); }, [this] { life_->arm_all(true); });
}

void Supervisor::reconsider() {
  life_->arm_all(false);
}

std::vector<std::string> Supervisor::drain(SteadyTime deadline) {
  life_->stop.request_stop();
  life_->watch.request_stop();
  for (auto& slot : life_->slots) asio::post(slot->strand, [&slot = *slot] { slot.timer.cancel(); });
  asio::post(life_->heartbeat.get_executor(), [life = life_.get()] { life->heartbeat.cancel(); });
  std::unique_lock lock(life_->mutex);
  life_->stopped_running.wait_until(lock, deadline, [&] { return life_->running.empty(); });
  return {life_->running.begin(), life_->running.end()};
}

void Supervisor::join() {
  life_->watch.stop();
  life_->pool.join();
}

bool Supervisor::alive() const {
  const SteadyTime progress{SteadyTime::duration{life_->progress}};
  return life_->clock.now() - progress < life_->stall_after;
}

}  // namespace ff::supervisor
