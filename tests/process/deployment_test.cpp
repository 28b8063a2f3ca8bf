// The files around the binary are what their own tools say is right.
#include <catch2/catch.hpp>
#include <filesystem>

#include "support/process.hpp"

using namespace ff::test;

namespace {

const std::string kSource = FF_SOURCE_DIRECTORY;

/// The unit with the binary under test in it, so that ExecStart names something that is there.
std::string unit_in(const TemporaryDirectory& directory) {
  const std::string unit = (directory.path() / "ff-reconcilerd.service").string();
  const Ended made =
      run({"sh", "-c", "sed \"s#/usr/bin/ff-reconcilerd#$1#\" \"$2/systemd/ff-reconcilerd.service\" > \"$3\"",
           "sh", FF_BINARY, kSource, unit});
  REQUIRE(made.code == 0);
  return unit;
}

}  // namespace

TEST_CASE("systemd finds nothing to say about the unit") {
  const TemporaryDirectory directory;
  const Ended verified = run({"systemd-analyze", "verify", "--man=no", unit_in(directory)});
  CHECK(verified.code == 0);
  CHECK(verified.out + verified.err == "");
}

TEST_CASE("the unit is confined") {
  const TemporaryDirectory directory;
  const Ended rated = run(
      {"systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", unit_in(directory)});
  CAPTURE(rated.out, rated.err);
  CHECK(rated.code == 0);
}

TEST_CASE("Prometheus understands the rules, and they alert when they should") {
  const std::string directory = kSource + "/config/prometheus/";
  const Ended checked = run({"promtool", "check", "rules", directory + "ff-reconciler.rules.yml"});
  CAPTURE(checked.out, checked.err);
  CHECK(checked.code == 0);
  const Ended tested = run({"promtool", "test", "rules", directory + "ff-reconciler.rules.test.yml"});
  CAPTURE(tested.out, tested.err);
  CHECK(tested.code == 0);
}

TEST_CASE("every metric that a rule asks for is one that the daemon has") {
  RunningDaemon daemon({.conninfo = "host=/nonexistent dbname=x user=y", .config = "partitions: 0-3\n"});
  const std::string metrics = '\n' + daemon.get("/metrics").body;
  const Ended names =
      run({"sh", "-c",
           "grep -oh 'ff_reconciler_[a-z_]*' \"$1\"/config/prometheus/ff-reconciler.rules.yml | sort -u",
           "sh", kSource});
  REQUIRE(names.code == 0);
  std::istringstream lines(names.out);
  int count = 0;
  for (std::string name; std::getline(lines, name); ++count) {
    CAPTURE(name);
    CHECK((metrics.find('\n' + name + ' ') != std::string::npos ||
           metrics.find('\n' + name + '{') != std::string::npos));
  }
  CHECK(count > 5);
}
