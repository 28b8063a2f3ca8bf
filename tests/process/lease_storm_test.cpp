// Everything at once: producers that commit as fast as they can in any order, a server that is restarted and
// crashes, sessions that are ended at random, and a subscriber process that is killed again and again.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <random>
#include <sstream>
#include <thread>

#include "lease/history.hpp"
#include "migrate/migrate.hpp"
#include "pg/lease_outbox.hpp"
#include "support/engine.hpp"
#include "support/process.hpp"
#include "testserver/private_server.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

constexpr int kProducers = 16;
constexpr std::int16_t kPartitions = 32;
constexpr std::int64_t kEvents = 200'000;
constexpr int kKills = 10;
// With the address sanitizer a subscriber takes more than two minutes.
constexpr Milliseconds kPatience{300'000};

/// A server of the test's own, because it is restarted. Durable: a crash must not take a commit that was
/// seen.
struct Server {
  Server() {
    pg::Connection connection = connect();
    migrate::up(connection, Database::kFanOut);
  }
  pg::Connection connect() const { return connector.connect(in(10s)); }

  testserver::PrivateServer server{{.durable = true}};
  const pg::Connector connector{{.conninfo = server.conninfo(), .application_name = "storm"}};
  const pg::Connector listening{{.conninfo = server.conninfo(), .application_name = "storm listener"}};
};

/// Commits transactions of a few events each, some after a pause, and rolls back some, until enough has been
/// committed by all producers together. A session that breaks is replaced.
class Producer {
 public:
  Producer(const Server& server, unsigned seed, std::atomic<std::int64_t>& committed)
      : server_(server),
        random_(seed),
        committed_(committed),
        thread_([this](const std::stop_token& stop) { produce(stop); }) {}

 private:
  void produce(const std::stop_token& stop) {
    std::optional<pg::Connection> session;
    while (committed_ < kEvents && !stop.stop_requested()) {
      try {
        if (!session) session.emplace(server_.connect());
        transact(*session);
      } catch (const pg::Error&) {
        session.reset();
        std::this_thread::sleep_for(50ms);  // the server is away
      }
    }
  }
  void transact(pg::Connection& session) {
    const auto dice = [&](int sides) { return std::uniform_int_distribution<int>(1, sides)(random_); };
    const int events = dice(60);
    session.execute_script("BEGIN");
    session.execute(
        "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)"
        " SELECT gen_random_uuid(), 'renewed', 1, (random() * 1000)::integer % $2 FROM generate_series(1, "
        "$1)",
        pg::Params::of(events, static_cast<int>(kPartitions)));
    if (dice(10) == 1) std::this_thread::sleep_for(Milliseconds{dice(30)});
    const bool commit = dice(12) > 1;
    session.execute_script(commit ? "COMMIT" : "ROLLBACK");
    if (commit) committed_ += events;
  }

  const Server& server_;
  std::mt19937 random_;
  std::atomic<std::int64_t>& committed_;
  std::jthread thread_;
};

/// A subscription on one partition within this process, and what it got.
class Consumer {
 public:
  Consumer(lease::History& history, std::int16_t partition)
      : subscription_(history.subscribe({.partition = {{partition}}, .after = after(0)})),
        thread_([this] { consume(); }) {}

  ~Consumer() { subscription_.close(); }
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  std::size_t count() const { return count_; }
  const std::vector<std::int64_t>& stop() {
    subscription_.close();
    thread_.join();
    return ids_;
  }

 private:
  void consume() {
    while (!subscription_.closed()) {
      const auto delivery = subscription_.next(in(kPatience));
      if (!delivery) continue;
      if (const auto* event = std::get_if<lease::Event>(&*delivery)) {
        ids_.push_back(occurrence(*event).cursor.event_id);
        ++count_;
      }
    }
  }

  lease::Subscription subscription_;
  std::vector<std::int64_t> ids_;  // the thread's until it has been joined
  std::atomic<std::size_t> count_{0};
  std::jthread thread_;
};

/// `lease-events --follow` over all partitions, through all its lives.
class Subscriber {
 public:
  explicit Subscriber(const Server& server) : environment_{{"FF_DATABASE_URL", server.server.conninfo()}} {
    start();
  }
  void kill_and_resume() {
    process_->signal(SIGKILL);
    process_->wait();
    collect();
    start();
  }
  std::size_t count() {
    const std::string more = process_->out(counted_bytes_);
    counted_bytes_ += more.size();
    counted_lines_ += static_cast<std::size_t>(std::count(more.begin(), more.end(), '\n'));
    return ids_.size() + counted_lines_;
  }
  const std::vector<std::int64_t>& stop() {
    process_->signal(SIGTERM);
    code_ = process_->wait();
    collect();
    return ids_;
  }
  std::optional<int> code() const { return code_; }

 private:
  void start() {
    process_ = std::make_unique<Process>(
        std::vector<std::string>{FF_BINARY, "lease-events", "--follow", "--after", cursor_}, environment_);
  }
  void collect() {
    counted_bytes_ = counted_lines_ = 0;
    std::istringstream out(process_->out());
    for (std::string line; std::getline(out, line);) {
      if (out.eof()) break;  // cut off by the kill: not printed
      const Json event = Json::parse(line);
      ids_.push_back(event["event_id"]);
      cursor_ = event["cursor"];
    }
  }

  const Environment environment_;
  std::string cursor_ = "020000000000000000";
  std::vector<std::int64_t> ids_;  // of the lives before this one
  std::unique_ptr<Process> process_;
  std::size_t counted_bytes_ = 0;  // of what this life has written
  std::size_t counted_lines_ = 0;
  std::optional<int> code_;
};

// Anything that lies between two restarts of the server may find it away.
void end_a_listener(const Server& server) {
  try {
    server.connect().execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name IN ('storm listener', 'ff-reconcilerd') ORDER BY random() LIMIT 1");
  } catch (const pg::Error&) {
    return;
  }
}

std::vector<std::int64_t> committed_ids(pg::Connection& session, std::int16_t partition) {
  std::vector<std::int64_t> ids;
  for (const pg::Row& row :
       session.execute("SELECT event_id FROM ff_lease_event WHERE $1 IN (-1, partition_key)"
                       " ORDER BY event_id",
                       pg::Params::of(static_cast<int>(partition))))
    ids.push_back(row.get<std::int64_t>(0));
  return ids;
}

}  // namespace

TEST_CASE(
    "in a storm every committed event is delivered once and in order, to each partition's subscriber and to "
    "a "
    "process that is killed") {
  Server server;
  std::atomic<std::int64_t> committed = 0;
  lease::History history(server.listening);
  std::vector<std::unique_ptr<Consumer>> consumers;
  for (std::int16_t key = 0; key < kPartitions; ++key)
    consumers.push_back(std::make_unique<Consumer>(history, key));
  Subscriber subscriber(server);
  {
    std::vector<std::unique_ptr<Producer>> producers;
    for (unsigned seed = 0; seed < kProducers; ++seed)
      producers.push_back(std::make_unique<Producer>(server, seed, committed));
    constexpr int kSteps = kKills + 2;
    for (int step = 1; step <= kSteps; ++step) {
      REQUIRE(wait_until([&] { return committed >= kEvents * step / kSteps; }, kPatience));
      if (step == kSteps) break;
      end_a_listener(server);
      if (step == kSteps / 3) server.server.restart();
      if (step == 2 * kSteps / 3) server.server.restart(testserver::PrivateServer::Stop::immediate);
      if (step <= kKills) subscriber.kill_and_resume();
    }
  }

  pg::Connection session = server.connect();
  const auto all = committed_ids(session, -1);
  CHECK(all.size() >= kEvents);
  // What never comes shows in the comparison below.
  wait_until(
      [&] {
        std::size_t consumed = 0;
        for (const auto& consumer : consumers) consumed += consumer->count();
        return consumed >= all.size() && subscriber.count() >= all.size();
      },
      kPatience);
  // In brackets: printing two hundred thousand ids would take longer than the storm.
  CHECK((subscriber.stop() == all));
  CHECK(subscriber.code() == 0);
  for (std::int16_t key = 0; key < kPartitions; ++key)
    CHECK((consumers[static_cast<std::size_t>(key)]->stop() == committed_ids(session, key)));
}
