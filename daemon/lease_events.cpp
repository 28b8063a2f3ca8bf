#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "commands.hpp"
#include "configuration.hpp"
#include "exit_codes.hpp"
#include "lease/history.hpp"
#include "lease_lag.hpp"
#include "log.hpp"
#include "migrate/migrate.hpp"
#include "report_json.hpp"

namespace ff::daemon {
namespace {

using namespace std::chrono_literals;
using lease::Cursor;

constexpr Milliseconds kConnectWithin = 10s;
constexpr Milliseconds kTryAgain = 2s;
constexpr const char* kClock = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
// A pipe that is ready takes this much without blocking.
constexpr std::size_t kPiece = 4096;

/// What ends the command from outside: SIGINT, SIGTERM, or nobody reads our output any more. Made before any
/// other thread, so that all inherit the blocked signals.
class End {
 public:
  End() {
    std::signal(SIGPIPE, SIG_IGN);
    sigset_t ending;
    ::sigemptyset(&ending);
    for (const int number : {SIGINT, SIGTERM}) ::sigaddset(&ending, number);
    ::pthread_sigmask(SIG_BLOCK, &ending, nullptr);
    signals_ = ::signalfd(-1, &ending, SFD_CLOEXEC);
    if (signals_ < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
    watcher_ = std::jthread([this] { watch(); });
  }
  ~End() {
    done_.raise();
    watcher_.join();
    ::close(signals_);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  /// Raised when it has come.
  const pg::Interrupt& interrupt() const { return come_; }

 private:
  void watch() {
    // Without any event asked for, poll() tells of a pipe or socket whose other side is closed.
    std::array<pollfd, 3> polled{pollfd{signals_, POLLIN, 0}, pollfd{STDOUT_FILENO, 0, 0},
                                 pollfd{done_.fd(), POLLIN, 0}};
    while (::poll(polled.data(), polled.size(), -1) < 0 && errno == EINTR) {
    }
    come_.raise();
  }

  pg::Interrupt done_;
  pg::Interrupt come_;
  int signals_ = -1;
  std::jthread watcher_;
};

/// Closes a subscription when the end has come, so that nobody waits in it any more.
class Closing {
 public:
  Closing(lease::Subscription& subscription, const End& end)
      : closer_([this, &subscription, &end] {
          std::array<pollfd, 2> polled{pollfd{end.interrupt().fd(), POLLIN, 0},
                                       pollfd{done_.fd(), POLLIN, 0}};
          while (::poll(polled.data(), polled.size(), -1) < 0 && errno == EINTR) {
          }
          subscription.close();
        }) {}
  ~Closing() { done_.raise(); }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;

 private:
  pg::Interrupt done_;
  std::jthread closer_;
};

/// Writes to standard output; false: the end has come, or nobody reads. A reader that is slow is waited for.
bool write_out(std::string_view text, const pg::Interrupt& end) {
  while (!text.empty()) {
    std::array<pollfd, 2> polled{pollfd{STDOUT_FILENO, POLLOUT, 0}, pollfd{end.fd(), POLLIN, 0}};
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return false;
    if (polled[1].revents != 0) return false;
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), std::min(text.size(), kPiece));
    if (written < 0 && errno == EPIPE) return false;
    if (written < 0 && errno != EINTR && errno != EAGAIN)
      throw std::system_error(errno, std::generic_category(), "standard output");
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::string line_of(const lease::Event& event) {
  const lease::Occurrence& what = occurrence(event);
  const nlohmann::ordered_json line{{"event_id", what.cursor.event_id},
                                    {"cursor", to_hex(what.cursor)},
                                    {"type", wire_name(type_of(event))},
                                    {"execution_id", to_string(what.execution)},
                                    {"lease_id", or_null(what.lease_id)},
                                    {"occurred_at_ms", count(what.at)},
                                    {"partition", what.execution.partition.value},
                                    {"namespace", or_null(what.name_space)},
                                    {"instance_tag", or_null(what.instance_tag)}};
  return dump(line) + '\n';
}

std::optional<PartitionKey> partition(const Arguments& arguments) {
  if (arguments.text("partition").value_or("all") == "all") return std::nullopt;
  const auto key = arguments.number("partition", 0, std::numeric_limits<std::int16_t>::max());
  return PartitionKey{static_cast<std::int16_t>(*key)};
}

// Where to start; nothing: behind the newest event. Without a cursor that is the beginning, but for who
// follows the present moment.
std::optional<Cursor> start(const Arguments& arguments) {
  const auto given = arguments.text("after");
  if (!given) return arguments.has("follow") ? std::nullopt : std::optional(Cursor{0});
  try {
    return lease::parse_hex_cursor(*given);
  } catch (const lease::InvalidCursor& error) {
    throw UsageError(std::string("--after: ") + error.what());
  }
}

ScannerFilter filter(const Arguments& arguments) {
  ScannerFilter filter;
  filter.name_space = arguments.text("namespace");
  filter.instance_tag = arguments.instance_tag();
  return filter;
}

// One that is not there would look like one in which nothing happens. Who may read events only cannot be told.
void refuse_unless_there(PartitionKey partition, pg::Connection& connection) {
  try {
    const int count = migrate::flow_partitions(connection);
    if (partition.value >= count)
      throw UsageError(fmt::format("--partition: there is no {}: ff_partition_config has {} (0-{})",
                                   partition.value, count, count - 1));
  } catch (const pg::Error& error) {
    if (!error.lacks_privilege()) throw;
  }
}

lease::OutboxHead head_of(pg::Connection& connection, std::int64_t cursor) {
  try {
    return lease::read_head(connection, lease::means(connection), cursor);
  } catch (const pg::Error& error) {
    if (error.schema_mismatch()) migrate::refuse_if_elsewhere(connection);
    throw;
  }
}

// The history goes on by itself once it has begun, but the beginning is ours: who follows
// waits for the database, who asks once is told that it is away (a pg::Error).
LeaseLag::Beginning present(const pg::Connector& connector, const lease::History::Request& request,
                            std::optional<Cursor> from, bool follow, const pg::Interrupt& end) {
  for (bool told = false;; told = true) {
    try {
      pg::Connection connection = connector.connect(Clock::system().now() + kConnectWithin, &end);
      if (request.partition) refuse_unless_there(*request.partition, connection);
      const auto time = connection.execute(kClock).one().get<std::int64_t>(0);
      const std::int64_t cursor = from.value_or(Cursor{}).event_id;
      const lease::OutboxHead head = head_of(connection, cursor);
      const bool is_past = cursor > 0 && cursor < head.drawn.value_or(head.newest.event_id);
      return {.database_time = unix_millis(time),
              .newest = {head.newest.event_id},
              .gone = is_past && !head.known_hash ? from : std::nullopt,
              .reads_all = !request.partition && request.filter.matches_everything()};
    } catch (const pg::Error& error) {
      const bool away = error.connection_lost() || error.not_writable() || error.timed_out();
      if (!follow || !away || error.interrupted()) throw;
      if (!told) spdlog::warn("lease history: {}; waiting for the database", error.what());
    }
    pg::Wake never;
    never.wait(Clock::system().now() + kTryAgain, &end);
  }
}

// Who follows waits out whatever happens to the database, who asks once is told of it (a pg::Error).
void print(lease::Subscription& subscription, LeaseLag* lag, bool follow, const End& end) {
  const Closing closing(subscription, end);
  if (!follow) subscription.wait_until_begun();
  while (!subscription.closed()) {
    const auto delivery = subscription.next(Clock::system().now() + 1h);
    if (!delivery) continue;
    if (const auto* event = std::get_if<lease::Event>(&*delivery)) {
      if (lag) lag->read(occurrence(*event));
      if (!write_out(line_of(*event), end.interrupt())) return;
    } else if (const auto* refused = std::get_if<lease::CursorRefused>(&*delivery)) {
      throw UsageError("--after: " + refused->reason);
    } else if (const auto* lost = std::get_if<lease::StreamDisconnected>(&*delivery)) {
      if (!follow) std::rethrow_exception(lost->reason);
    } else {  // lease::CaughtUp
      if (lag) lag->caught_up();
      if (!follow) return;
    }
  }
}

Milliseconds retention(const config::Config& config) {
  for (const config::Reconciler& its : config.reconcilers)
    if (its.name == "outbox_retention") return Milliseconds{*its.settings.at("retention")};
  throw std::logic_error("outbox_retention is not configured");
}

}  // namespace

int lease_events(const Arguments& arguments) {
  const config::Config config = load_config(arguments);
  const bool follow = arguments.has("follow");
  const auto from = start(arguments);
  const lease::History::Request request{.partition = partition(arguments),
                                        .after = from ? to_bytes(*from) : std::string(),
                                        .filter = filter(arguments),
                                        .begins_now = false};
  // Whoever reads on from where it was, and not just what there is.
  const bool reads_on = follow || !arguments.text("after").value_or("").empty();
  set_up_log({reads_on ? config::LogLevel::info : config::LogLevel::warn, config.log.format});
  const pg::Connector connector = make_connector(config.database);
  const End end;
  try {
    LeaseLag lag(present(connector, request, from, follow, end.interrupt()), retention(config),
                 Clock::system());
    lease::History history(connector);
    auto subscription = history.subscribe(request);
    print(subscription, reads_on ? &lag : nullptr, follow, end);
  } catch (const pg::Error& error) {
    if (!error.interrupted()) throw;
  }
  return kDone;
}

}  // namespace ff::daemon
