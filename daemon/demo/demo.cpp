#include "demo/demo.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <thread>

#include "demo/database.hpp"
#include "demo/signals.hpp"
#include "demo/system.hpp"
#include "demo/terminal.hpp"
#include "demo/view.hpp"
#include "exit_codes.hpp"
#include "log.hpp"

namespace ff::daemon {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kBetweenFrames = 200ms;
constexpr Milliseconds kBetweenLines = 2s;
constexpr Milliseconds kStep = 50ms;  // how soon a signal is answered

void introduce(const DemoSystem& system) {
  std::cout
      << fmt::format(
             "ff-reconcilerd demo: simulated workers claim executions and sometimes crash; the daemon\n"
             "takes their lapsed leases back and puts the executions to work again, or ends them.\n"
             "Whatever else falls due falls due as well: delays, deadlines, suspensions, flows and so on.\n"
             "  database  {}\n"
             "  page      {}\n"
             "  metrics   {}\n"
             "  end       Ctrl-C: a summary, a check of the books{}\n",
             system.database(), system.page_url(), system.metrics_url(),
             system.private_database() ? ", and everything is removed" : "")
      << std::flush;
}

/// What somebody sees of the system: a live screen where there is a terminal, which it has back at the end of
/// this, else lines.
class Audience {
 public:
  explicit Audience(DemoSystem& system) : system_(system) {
    introduce(system);
    if (can_draw()) screen_.emplace();
  }

  void show() {
    const SteadyTime now = Clock::system().now();
    if (now < next_) return;
    const Scene scene = system_.scene();
    if (screen_)
      screen_->draw(screen(scene, style_of_output()));
    else
      std::cout << line(scene) << std::endl;
    next_ = now + (screen_ ? kBetweenFrames : kBetweenLines);
  }

 private:
  DemoSystem& system_;
  std::optional<LiveScreen> screen_;
  SteadyTime next_{};
};

/// Until the time is over, somebody wants it to end, or something broke.
void watch(DemoSystem& system, Audience& audience, const StopSignals& signals,
           std::optional<Milliseconds> length) {
  const SteadyTime start = Clock::system().now();
  while (!signals.asked() && system.errors().empty() && std::cout.good()) {
    if (length && Clock::system().now() - start >= *length) return;
    audience.show();
    std::this_thread::sleep_for(kStep);
  }
}

/// No more new work; what was begun is finished, what lapsed is taken back.
void settle(DemoSystem& system, const StopSignals& signals) {
  std::cout << "Finishing: workers end what they hold, the daemon moves whatever still falls due."
            << (signals.asked() ? " Ctrl-C again to skip this and the check." : "") << std::endl;
  system.finish();
  const SteadyTime deadline = Clock::system().now() + system.longest_settling();
  while (!system.settled() && Clock::system().now() < deadline) {
    signals.end_if_impatient();
    std::this_thread::sleep_for(kStep);
  }
  signals.end_if_impatient();
}

int conclude(DemoSystem& system) {
  if (const auto errors = system.errors(); !errors.empty()) {
    for (const std::string& error : errors) std::cerr << "ff-reconcilerd: " << error << '\n';
    system.require_database();
    return kInternal;
  }
  const std::vector<simulation::Verdict> verdicts = system.close_books();
  std::cout << summary(system.scene(), verdicts, style_of_output()) << system.remains() << std::flush;
  const bool balanced =
      std::all_of(verdicts.begin(), verdicts.end(), [](const simulation::Verdict& v) { return v.balanced; });
  return balanced ? kDone : kProblem;
}

int show_and_check(DemoDatabase& database, const StopSignals& signals, std::optional<Milliseconds> length) {
  DemoSystem system(database, length);
  {
    Audience audience(system);
    watch(system, audience, signals, length);
  }
  if (system.errors().empty()) settle(system, signals);
  return conclude(system);
}

}  // namespace

int run_demo(const Arguments& arguments) {
  constexpr std::int64_t kLongest = std::int64_t{7} * 24 * 3600;
  const auto given_seconds = arguments.number("seconds", 1, kLongest);
  const auto length = given_seconds ? std::optional(Milliseconds{*given_seconds * 1000}) : std::nullopt;
  set_up_log({config::LogLevel::error, config::LogFormat::text});
  std::signal(SIGPIPE, SIG_IGN);
  const StopSignals signals;
  try {
    DemoDatabase database(arguments.text("database-url"),
                          [](const std::string& step) { std::cout << step << std::endl; });
    if (signals.asked()) return kDone;
    return show_and_check(database, signals, length);
  } catch (const Impatient&) {
    std::cerr << "ff-reconcilerd: ended without a check of the books\n";
    return kProblem;
  } catch (const DatabaseUnfit& unfit) {
    std::cerr << "ff-reconcilerd: " << unfit.what() << '\n';
    return kProblem;
  }
}

}  // namespace ff::daemon
