#include <spdlog/spdlog.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

#include "commands.hpp"
#include "config/problem.hpp"
#include "configuration.hpp"
#include "daemon.hpp"
#include "descriptors.hpp"
#include "exit_codes.hpp"
#include "log.hpp"
#include "notify.hpp"

namespace ff::daemon {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr Milliseconds kBeyondGrace = 5s;
// What the service manager is told costs next to nothing, but not nothing.
constexpr Milliseconds kShortestPause = 10ms;

// Set by a SIGHUP that comes before the Service waits for any.
volatile std::sig_atomic_t told_to_reload = 0;

extern "C" void note_reload(int /*number*/) {
  told_to_reload = 1;
}

// What would otherwise end the daemon: a pipe that nobody reads, a log that has reached the limit of a file (ulimit -f), a
// reload while it starts.
void outlive_signals() {
  for (const int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
  std::signal(SIGHUP, note_reload);
}

/// Ends the process when its end takes too long: what libpq reads for a connection, such as a certificate, it may read for ever.
/// The thread for that is made at once, since when the signal comes the system may have none to give.
class EndInAnyCase {
 public:
  /// From now on; the first call counts.
  void within(Milliseconds limit) {
    {
      const std::lock_guard lock(mutex_);
      if (!deadline_) {
        limit_ = limit;
        deadline_ = Clock::system().now() + limit;
      }
    }
    told_.notify_all();
  }

 private:
  void watch(const std::stop_token& ended) {
    std::unique_lock lock(mutex_);
    if (!told_.wait(lock, ended, [this] { return deadline_.has_value(); })) return;
    told_.wait_until(lock, ended, *deadline_, [] { return false; });
    if (ended.stop_requested()) return;
    spdlog::critical("not stopped within {} s: the server rolls back what was under way", seconds(limit_));
    std::_Exit(kInternal);
  }

  std::mutex mutex_;
  std::condition_variable_any told_;
  Milliseconds limit_{0};
  std::optional<SteadyTime> deadline_;
  std::jthread thread_{[this](const std::stop_token& ended) { watch(ended); }};
};

/// The daemon's conversation with whoever started it: signals in, sd_notify out.
class Service {
 public:
  Service(const Arguments& arguments, Daemon& daemon, EndInAnyCase& end)
      : arguments_(arguments), daemon_(daemon), end_(end) {}

  void run() {
    wait_for_signal();
    daemon_.start();
    try {
      converse();
    } catch (const std::exception& error) {
      // What is under way is finished or cancelled all the same.
      signals_.clear();
      spdlog::critical("stopping: {}", error.what());
      stop();
      throw;
    }
    stop();
  }

 private:
  void converse() {
    say_ready();
    if (told_to_reload != 0) reload();
    report();
    io_.run();
  }

  void stop() {
    end_.within(daemon_.grace() + kBeyondGrace);
    daemon_.stop();
  }

  void wait_for_signal() {
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      if (number == SIGHUP) {
        reload();
        return wait_for_signal();
      }
      // Before anybody is told, who may not listen.
      signals_.clear();  // which leaves the default to a second signal: it ends the process at once
      std::signal(SIGHUP, SIG_IGN);
      end_.within(daemon_.grace() + kBeyondGrace);
      spdlog::info("stopping on signal {}", number);
      notify_service_manager("STOPPING=1\nSTATUS=finishing what is under way", kWaitToBeHeard);
      io_.stop();
    });
  }

  void reload() {
    notify_service_manager("RELOADING=1\nMONOTONIC_USEC=" + monotonic_usec(), kWaitToBeHeard);
    try {
      config::Config wanted = load_config(arguments_, ReadOnly::refused);
      set_log_level(wanted.log.level);
      for (const std::string& key : daemon_.reload(std::move(wanted)))
        spdlog::warn("{} has changed, which takes a restart", key);
      spdlog::info("configuration reloaded");
    } catch (const config::Invalid& invalid) {
      daemon_.reload_failed();
      for (const config::Problem& problem : invalid.problems()) spdlog::error("{}", problem.text());
      spdlog::error("configuration not reloaded, the earlier one stays");
    } catch (const std::exception& error) {
      daemon_.reload_failed();
      spdlog::error("configuration not reloaded, the earlier one stays: {}", error.what());
    }
    say_ready();
  }

  void say_ready() {
    is_ready_told_ = notify_service_manager("READY=1\nSTATUS=" + daemon_.board().line(), kWaitToBeHeard);
  }

  // Tells the service manager one line of state, and that the scheduler makes progress as long as it does.
  void report() {
    const Milliseconds pause = std::clamp(watchdog_.value_or(10s) / 3, kShortestPause, Milliseconds{5s});
    timer_.expires_after(pause);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      // Whoever waits for it in vain ends the process.
      if (!is_ready_told_)
        say_ready();
      else
        notify_service_manager("STATUS=" + daemon_.board().line());
      if (watchdog_ && daemon_.alive()) notify_service_manager("WATCHDOG=1");
      report();
    });
  }

  const Arguments& arguments_;
  Daemon& daemon_;
  EndInAnyCase& end_;
  asio::io_context io_{1};
  asio::signal_set signals_{io_, SIGTERM, SIGINT, SIGHUP};
  asio::steady_timer timer_{io_};
  const std::optional<Milliseconds> watchdog_ = watchdog_interval();
  bool is_ready_told_ = false;
};

}  // namespace

int run(const Arguments& arguments) {
  outlive_signals();
  const config::Config config = load_config(arguments, ReadOnly::refused);
  set_up_log(config.log);
  raise_descriptor_limit(config);
  const auto file = arguments.text("config");
  EndInAnyCase end;  // of the daemon's own end, too
  Daemon daemon(config, file ? std::filesystem::absolute(*file).string() : std::string());
  Service(arguments, daemon, end).run();
  spdlog::info("stopped");
  return kDone;
}

}  // namespace ff::daemon
