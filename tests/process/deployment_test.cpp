// The files around the binary are what their own tools say is right.
#include <catch2/catch.hpp>
#include <cctype>
#include <filesystem>

#include "support/database.hpp"
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

TEST_CASE("units can be read by everybody, whatever the umask of who installs them, and wherever to") {
  const TemporaryDirectory directory;
  const std::string place = directory.path() / "a b";
  const Ended installed = run({"sh", "-c",
                               "umask 077; exec cmake -D CMAKE_INSTALL_PREFIX=/usr -D "
                               "unit_source=\"$1/systemd/ff-reconcilerd.service\" "
                               "-P \"$1/systemd/install_units.cmake\"",
                               "sh", kSource},
                              {{"DESTDIR", place}});
  REQUIRE(installed.code == 0);
  for (const std::string unit : {"ff-reconcilerd.service", "ff-reconcilerd@.service"})
    CHECK(run({"stat", "-c", "%a", place + "/usr/lib/systemd/system/" + unit}).out == "644\n");
}

TEST_CASE("what is installed runs, and its units name it") {
  const TemporaryDirectory directory;
  const std::string build = std::filesystem::path(FF_BINARY).parent_path();
  const Ended installed = run({"cmake", "--install", build, "--strip", "--prefix", "/opt/ff"},
                              {{"DESTDIR", directory.path().string()}});
  REQUIRE(installed.code == 0);
  const auto place = directory.path() / "opt/ff";
  CHECK(run({place / "bin/ff-reconcilerd", "version"}).code == 0);
  CHECK(exists(place / "share/doc/ff-reconciler/config/ff-reconciler.yaml"));
  CHECK(run({"head", "-n", "1", place / "share/man/man8/ff-reconcilerd.8"}).out ==
        ".\\\" Made by `ff-reconcilerd manual ff-reconcilerd.8`.\n");
  CHECK(run({"cat", place / "share/bash-completion/completions/ff-reconcilerd"}).out ==
        run_binary({"manual", "bash-completion"}).out);
  // systemd wants the program to be there: the binary under test stands for the installed one.
  for (const std::string instance : {"", "@orders"}) {
    const std::string unit = directory.path() / ("ff-reconcilerd" + instance + ".service");
    const Ended made =
        run({"sh", "-c", "sed \"s#/opt/ff/bin/ff-reconcilerd#$1#\" \"$2\" > \"$3\"", "sh", FF_BINARY,
             place / "lib/systemd/system" /
                 (instance.empty() ? "ff-reconcilerd.service" : "ff-reconcilerd@.service"),
             unit});
    REQUIRE(made.code == 0);
    const Ended verified = run({"systemd-analyze", "verify", "--man=no", unit});
    CHECK(verified.code == 0);
    CHECK(verified.out + verified.err == "");
    const Ended line = run({"grep", "^ExecStart=", unit});
    CHECK_THAT(line.out, Catch::StartsWith("ExecStart=" FF_BINARY " run "));
    CHECK_THAT(line.out, Catch::EndsWith(instance.empty() ? "/opt/ff/etc/ff-reconciler/ff-reconciler.yaml\n"
                                                          : "/opt/ff/etc/ff-reconciler/%i.yaml\n"));
  }
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

TEST_CASE(
    "Prometheus finds the pods of the base and those with a sidecar, by labels and ports that they have") {
  const auto [pods, label, port, monitor] =
      GENERATE(table<std::string, std::string, std::string, std::string>(
          {{"base/deployment.yaml", "app.kubernetes.io/name: ff-reconciler", "http", "podmonitor.yaml"},
           {"sidecar/sidecar.yaml", "ff-reconciler: sidecar", "ff-reconciler", "sidecar.yaml"}}));
  const auto text = [](const std::string& file) {
    return run({"cat", kSource + "/config/kubernetes/" + file}).out;
  };
  CAPTURE(pods, monitor);
  CHECK_THAT(text(pods), Catch::Contains("labels: {" + label + "}") &&
                             Catch::Contains("{name: " + port + ", containerPort: 9464}"));
  CHECK_THAT(text("podmonitor/" + monitor),
             Catch::Contains("matchLabels: {" + label + "}") && Catch::Contains("port: " + port) &&
                 (Catch::Contains("jobLabel: app.kubernetes.io/name") ||
                  Catch::Contains("{targetLabel: job, replacement: ff-reconciler}")));
  CHECK_THAT(text("podmonitor/kustomization.yaml"), Catch::Contains(monitor));
}

TEST_CASE("the image's configuration is complete with the database's URL") {
  const std::string file = kSource + "/config/container/ff-reconciler.yaml";
  const Ended checked =
      run_binary({"check-config", file}, {{"FF_DATABASE_URL", "postgresql://ff_reconciler@db/flowfabric"}});
  CAPTURE(checked.err);
  CHECK(checked.code == 0);
  CHECK_THAT(checked.out, Catch::Contains("listen: 0.0.0.0:9464"));
}

TEST_CASE("the page about metrics has every metric, and no other") {
  const Database database;
  RunningDaemon daemon(
      {.conninfo = database.conninfo(), .config = "partitions: 0-3\nmetrics: {per_partition: true}\n"});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  const TemporaryDirectory directory;  // of a file, as an argument is 128 KB at the most
  const Ended there = run({"sh", "-c", R"(sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' "$1" | sort)", "sh",
                           directory.write("metrics.txt", daemon.get("/metrics").body)});
  const Ended named = run(
      {"sh", "-c", R"(grep '^| `' "$1/docs/metrics.md" | cut -d '|' -f 2 | grep -o '[a-z_]*_[a-z_]*' | sort)",
       "sh", kSource});
  CHECK(there.out.size() > 500);
  CHECK(there.out == named.out);
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
