// The files around the binary are what their own tools say is right.
#include <catch2/catch.hpp>
#include <cctype>
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

TEST_CASE("every alert has its entry in the runbook, and every entry its alert") {
  const auto names = [](const std::string& file, const std::string& mark) {
    return run({"sh", "-c", R"(sed -n "s/^$2//p" "$1" | sort)", "sh", kSource + file, mark});
  };
  const Ended alerts = names("/config/prometheus/ff-reconciler.rules.yml", " *- alert: ");
  const Ended entries = names("/docs/runbook.md", "## ");
  CHECK(alerts.out.size() > 100);
  CHECK(alerts.out == entries.out);
  const Ended links =
      names("/config/prometheus/ff-reconciler.rules.yml", R"( *runbook_url: "docs\/runbook.md#)");
  std::string anchors;
  for (const char each : alerts.out)
    anchors += each == '\n' ? "\"\n" : std::string(1, static_cast<char>(std::tolower(each)));
  CHECK(links.out == anchors);
}

TEST_CASE("the configurations for Kubernetes are ones that the daemon accepts") {
  const auto* part = GENERATE("base", "sidecar");
  const TemporaryDirectory directory;
  directory.write("url", "postgresql://ff_reconciler@db/flowfabric\n");
  directory.write("password", "secret\n");
  // The secrets are mounted in the pod; here they are in the directory.
  const Ended text = run({"sed", "s#/run/secrets/ff-reconciler/#" + directory.path().string() + "/#",
                          kSource + "/config/kubernetes/" + part + "/ff-reconciler.yaml"});
  REQUIRE(text.code == 0);
  const Ended checked = run_binary({"check-config", directory.write("ff-reconciler.yaml", text.out)});
  CAPTURE(checked.err);
  CHECK(checked.code == 0);
  CHECK_THAT(checked.out, Catch::Contains("listen: 0.0.0.0:9464"));
}

TEST_CASE("every command in the documentation is one that there is, with the options that it has") {
  // A command line begins a line, or stands in back quotes.
  const Ended found =
      run({"sh", "-c",
           R"(cd "$1" && grep -ohE '(^|^\$ |`)ff-reconcilerd [a-z][^`#]*' README.md docs/*.md | sort -u)",
           "sh", kSource});
  std::istringstream lines(found.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    CAPTURE(line);
    std::istringstream words(line.substr(line.find("ff-reconcilerd ") + 15));
    std::string command;
    words >> command;
    const Ended help = run_binary({command, "--help"});
    CHECK(help.code == 0);
    for (std::string word; words >> word;)
      if (word.starts_with("--")) CHECK(help.out.find(word.substr(0, word.find('='))) != std::string::npos);
  }
  CHECK(count > 10);
}

TEST_CASE("every metric that a rule or the dashboard asks for is one that the daemon has") {
  RunningDaemon daemon({.conninfo = "host=/nonexistent dbname=x user=y", .config = "partitions: 0-3\n"});
  const std::string metrics = '\n' + daemon.get("/metrics").body;
  const Ended names =
      run({"sh", "-c",
           "cd \"$1\"/config && grep -oh 'ff_reconciler_[a-z_]*' prometheus/ff-reconciler.rules.yml "
           "grafana/ff-reconciler.json | sed 's/_bucket$//' | sort -u",
           "sh", kSource});
  REQUIRE(names.code == 0);
  std::istringstream lines(names.out);
  int count = 0;
  for (std::string name; std::getline(lines, name); ++count) {
    CAPTURE(name);
    CHECK(metrics.find("\n# TYPE " + name + ' ') != std::string::npos);
  }
  CHECK(count > 5);
}
