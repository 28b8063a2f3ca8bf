// What is told of the daemon itself: its state, pool, configuration, partitions, build and process.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "unit/metrics_samples.hpp"

using namespace ff::test;
using namespace std::chrono_literals;
using ff::unix_millis;
using ff::metrics::Metrics;

TEST_CASE("exactly one state is 1, and ready and writable follow from it") {
  Metrics metrics(two_reconcilers(), kClock);
  const auto expect = [&](ff::supervisor::State state, const char* ready, const char* writable) {
    metrics.state_changed(state, "because");
    const auto text = metrics.scrape();
    INFO(name(state));
    for (const auto each : ff::supervisor::kStates)
      CHECK(sample(text, "state{state=\"" + std::string(name(each)) + "\"}") == (each == state ? "1" : "0"));
    CHECK(sample(text, "ready") == ready);
    CHECK(sample(text, "db_writable") == writable);
  };
  CHECK(sample(metrics, R"(state{state="starting"})") == "1");
  expect(ff::supervisor::State::ready, "1", "1");
  expect(ff::supervisor::State::read_only, "0", "0");
  expect(ff::supervisor::State::schema_outdated, "0", "1");
  expect(ff::supervisor::State::unreachable, "0", "0");
  expect(ff::supervisor::State::recovering, "1", "1");
  expect(ff::supervisor::State::stopping, "0", "1");
  expect(ff::supervisor::State::starting, "0", "0");
}

TEST_CASE("the pool's events and its connections at the moment of the scrape are shown") {
  Metrics metrics(two_reconcilers(), kClock);
  metrics.waited(0.02s);
  metrics.acquire_timed_out();
  metrics.connected(nullptr);
  const ff::pg::Error refused(ff::pg::Error::Kind::server, "no such role", "28000");
  metrics.connected(&refused);
  metrics.database_error(ff::pg::Error(ff::pg::Error::Kind::timeout, "too long"));
  ff::pg::PoolState now{3, 2, 8, 0};
  metrics.watch_pool([&now] { return now; });
  const auto text = metrics.scrape();
  CHECK(sample(text, R"(db_pool_wait_seconds_bucket{le="0.05"})") == "1");
  CHECK(sample(text, R"(db_pool_wait_seconds_bucket{le="0.01"})") == "0");
  CHECK(sample(text, "db_pool_timeouts_total") == "1");
  CHECK(sample(text, R"(db_connects_total{result="success"})") == "1");
  CHECK(sample(text, R"(db_connects_total{result="failure"})") == "1");
  CHECK(sample(text, R"(db_errors_total{class="28"})") == "1");
  CHECK(sample(text, R"(db_errors_total{class="timeout"})") == "1");
  CHECK(sample(text, R"(db_connections{state="idle"})") == "3");
  CHECK(sample(text, R"(db_connections{state="in_use"})") == "2");
  CHECK(sample(text, "db_connections_max") == "8");

  now.idle = 5;
  CHECK(sample(metrics, R"(db_connections{state="idle"})") == "5");
  metrics.watch_pool({});
  CHECK(sample(metrics, R"(db_connections{state="idle"})") == "0");
}

TEST_CASE("a failed reload keeps the time of the last good one") {
  Metrics metrics(two_reconcilers(), kClock);
  CHECK(sample(metrics, "config_last_reload_successful") == "1");
  metrics.config_reloaded(0xffffffffffff);
  metrics.config_reloaded(std::nullopt);
  CHECK(sample(metrics, "config_hash") == "281474976710655");
  CHECK(sample(metrics, "config_last_reload_successful") == "0");
  CHECK(sample(metrics, "config_last_reload_success_timestamp_seconds") == "1700000000");
}

TEST_CASE("partitions are counted by whether they are covered") {
  Metrics metrics(two_reconcilers(), kClock);
  metrics.partitions(ff::cover(ff::PartitionShard{0, 4}, 10));
  CHECK(sample(metrics, R"(partitions{state="covered"})") == "3");
  CHECK(sample(metrics, R"(partitions{state="left_out"})") == "7");
}

TEST_CASE("build and schema are shown") {
  Metrics metrics(two_reconcilers(), kClock);
  metrics.schema_version(17);
  CHECK(sample(metrics, "schema_version") == "17");
  CHECK(sample(metrics,
               R"(build_info{compiler="g++ 12.2",libpq_version="15.3",revision="abc123",version="0.1.0"})") ==
        "1");
}

TEST_CASE("the process metrics agree with what the system says of this process") {
  const auto text = "\n" + Metrics(two_reconcilers()).scrape();
  const auto value = [&](const std::string& name) {
    const auto at = text.find("\n" + name + " ");
    REQUIRE(at != std::string::npos);
    return std::stod(text.substr(at + name.size() + 2));
  };
  const auto now = ff::unix_seconds(ff::Clock::system().wall());
  CHECK(value("process_start_time_seconds") <= now + 1);
  CHECK(value("process_start_time_seconds") > now - 3600);
  CHECK(value("process_resident_memory_bytes") > 1e6);
  CHECK(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
  CHECK(value("process_max_fds") == static_cast<double>(sysconf(_SC_OPEN_MAX)));
  CHECK(value("process_cpu_seconds_total") <= static_cast<double>(clock()) / CLOCKS_PER_SEC + 1);

  const auto before = value("process_open_fds");
  CHECK(before >= 1);
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const auto with_pipe = "\n" + Metrics(two_reconcilers()).scrape();
  CHECK(with_pipe.find("\nprocess_open_fds " + std::to_string(static_cast<int>(before) + 2) + "\n") !=
        std::string::npos);
  for (const int end : ends) close(end);
}

TEST_CASE("promtool finds nothing to say about the metrics") {
  Metrics metrics(two_reconcilers(), kClock);
  tick(metrics, busy_report());
  std::string path = std::filesystem::temp_directory_path() / "metrics.XXXXXX";
  const int fd = mkstemp(path.data());
  REQUIRE(fd >= 0);
  const auto text = metrics.scrape();
  const auto written = write(fd, text.data(), text.size());
  close(fd);

  FILE* promtool = popen(("promtool check metrics < " + path + " 2>&1").c_str(), "r");
  REQUIRE(promtool != nullptr);
  std::string said;
  std::array<char, 4096> part{};
  for (std::size_t n = 0; (n = fread(part.data(), 1, part.size(), promtool)) > 0;)
    said.append(part.data(), n);
  const int status = pclose(promtool);
  unlink(path.c_str());
  REQUIRE(written == static_cast<ssize_t>(text.size()));
  if (WEXITSTATUS(status) == 127) FAIL("promtool is needed for this test and was not found in PATH");
  CHECK(said == "");
  CHECK(status == 0);
}
