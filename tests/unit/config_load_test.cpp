#include <catch2/catch.hpp>

#include "config/options.hpp"
#include "config_samples.hpp"

using namespace ff;
using namespace ff::config;
using namespace ff::config::samples;
using namespace std::chrono_literals;

TEST_CASE("an empty configuration file is all defaults") {
  for (const char* yaml :
       {"", "\n\n", "# only a comment\n", "---\n", "{}\n", "database:\nhttp:\nreconcilers:\n"}) {
    CAPTURE(yaml);
    const Config config = load_yaml(yaml);
    CHECK(config.database.url.empty());
    CHECK(config.database.pool_size == 8);
    CHECK(config.database.acquire_timeout == 5s);
    CHECK(config.database.connect_timeout == 3s);
    CHECK(config.database.statement_timeout == 30s);
    CHECK(format_choice(config.partitions) == "all");
    CHECK(config.filter.matches_everything());
    CHECK(config.threads == 4);
    CHECK(config.helpers == 0);
    CHECK(config.recovery_grace == 15s);
    CHECK(config.http.host == "127.0.0.1");
    CHECK(config.http.port == 9464);
    CHECK_FALSE(config.http.unready_on_fault);
    CHECK(config.log.level == LogLevel::info);
    CHECK(config.log.format == LogFormat::text);
    CHECK_FALSE(config.log.actions);
    CHECK(config.shutdown.grace == 20s);
    CHECK_FALSE(config.metrics.per_partition);
    REQUIRE(config.reconcilers.size() == 3);
    CHECK(config.reconcilers[1].name == "lease_expiry");
    CHECK(config.reconcilers[1].interval == 1500ms);
    CHECK(config.reconcilers[1].settings.at("max_reclaims") == 3);
    CHECK_FALSE(config.reconcilers[2].enabled);
  }
}

TEST_CASE("no file at all is all defaults") {
  CHECK(load({}, decls()).threads == 4);
}

TEST_CASE("every documented option is read from the file") {
  const Config config = load_yaml(R"(
database:
  url: postgresql://ff_reconciler@db1,db2/flowfabric?target_session_attrs=read-write
  password_file: /run/secrets/ff-db-password
  pool_size: 9
  acquire_timeout: 6s
  connect_timeout: 400ms
  statement_timeout: 1m
partitions: 0-63
filter:
  namespace: tenant-a
  instance_tag: {key: cairn.instance_id, value: i-1}
threads: 5
recovery_grace: 0s
reconcilers:
  attempt_timeout: {enabled: false, interval: 3s, batch_size: 10, grace: 90s}
  lease_expiry: {interval: 1h, max_reclaims: unlimited, include_waiting: true}
http: {listen: 0.0.0.0:0}
log: {level: warn, format: json}
shutdown: {grace: 7s}
metrics: {per_partition: true}
)");
  CHECK(config.database.url ==
        "postgresql://ff_reconciler@db1,db2/flowfabric?target_session_attrs=read-write");
  CHECK(config.database.password_file == "/run/secrets/ff-db-password");
  CHECK(config.database.pool_size == 9);
  CHECK(config.database.acquire_timeout == 6s);
  CHECK(config.database.connect_timeout == 400ms);
  CHECK(config.database.statement_timeout == 60s);
  CHECK(format_choice(config.partitions) == "0-63");
  CHECK(config.filter.name_space == "tenant-a");
  CHECK(config.filter.instance_tag == ScannerFilter::Tag{"cairn.instance_id", "i-1"});
  CHECK(config.threads == 5);
  CHECK(config.recovery_grace == 0s);
  CHECK_FALSE(config.reconcilers[0].enabled);
  CHECK(config.reconcilers[0].interval == 3s);
  CHECK(config.reconcilers[0].batch_size == 10);
  CHECK(config.reconcilers[0].settings.at("grace") == 90'000);
  CHECK(config.reconcilers[1].enabled);
  CHECK(config.reconcilers[1].interval == 1h);
  CHECK(config.reconcilers[1].batch_size == 1000);
  CHECK(config.reconcilers[1].settings.at("max_reclaims") == std::nullopt);
  CHECK(config.reconcilers[1].settings.at("include_waiting") == 1);
  CHECK(config.http.host == "0.0.0.0");
  CHECK(config.http.port == 0);
  CHECK(config.log.level == LogLevel::warn);
  CHECK(config.log.format == LogFormat::json);
  CHECK(config.shutdown.grace == 7s);
  CHECK(config.metrics.per_partition);
}

TEST_CASE("partitions may be all of them, a range, a list or a shard") {
  CHECK(format_choice(load_yaml("partitions: all\n").partitions) == "all");
  CHECK(format_choice(load_yaml("partitions: 7\n").partitions) == "7");
  CHECK(format_choice(load_yaml("partitions: 64-127, 3\n").partitions) == "3,64-127");
  CHECK(format_choice(load_yaml("partitions: [0-63, 128]\n").partitions) == "0-63,128");
  CHECK(format_choice(load_yaml("partitions:\n  - 1\n  - 5-6\n").partitions) == "1,5-6");
  CHECK(load_yaml("partitions: {shard: 3, of: 4}\n").partitions == PartitionChoice{PartitionShard{3, 4}});
  CHECK(load_yaml("partitions: {shard: 600, of: 1024}\n").partitions ==
        PartitionChoice{PartitionShard{600, 1024}});
  CHECK(format_choice(load_yaml("partitions: {shard: 0, of: 1}\n").partitions) == "{shard: 0, of: 1}");
}

TEST_CASE("an IPv6 address to listen on loses its brackets") {
  const Config config = load_yaml("http: {listen: \"[::1]:8080\"}\n");
  CHECK(config.http.host == "::1");
  CHECK(config.http.port == 8080);
}

TEST_CASE("a reconciler takes the common filter unless it has its own") {
  const Config config = load_yaml(
      "filter: {namespace: a, instance_tag: {key: k, value: v}}\n"
      "reconcilers: {lease_expiry: {filter: {namespace: b}}}\n");
  CHECK(config.reconcilers[0].filter == config.filter);
  CHECK(config.reconcilers[1].filter.name_space == "b");
  CHECK_FALSE(config.reconcilers[1].filter.instance_tag);
  CHECK(config.reconcilers[2].filter.matches_everything());
}

TEST_CASE("an empty filter of its own exempts a reconciler from the common one") {
  const Config config = load_yaml("filter: {namespace: a}\nreconcilers: {lease_expiry: {filter: {}}}\n");
  CHECK(config.reconcilers[0].filter.name_space == "a");
  CHECK(config.reconcilers[1].filter.matches_everything());
}

TEST_CASE("a flag wins over the environment, that over the file, and that over the default") {
  const std::string yaml = "threads: 2\nrecovery_grace: 2s\nlog: {level: debug}\n";
  const Environment environment{{"FF_RECONCILER_THREADS", "3"}, {"FF_RECONCILER_RECOVERY_GRACE", "3s"}};
  const Config config = load_yaml(yaml, environment, {{"--threads", "threads", "1"}});
  CHECK(config.threads == 1);
  CHECK(config.recovery_grace == 3s);
  CHECK(config.log.level == LogLevel::debug);
  CHECK(config.shutdown.grace == 20s);
}

TEST_CASE("every option has an environment variable of its own") {
  std::map<std::string, std::string> paths;
  for (const Option& option : options(decls())) {
    const auto [first, fresh] = paths.emplace(environment_name(option.path), option.path);
    CAPTURE(option.path, first->second);
    CHECK(fresh);
  }
  CHECK(paths.at("FF_RECONCILER_DATABASE_POOL_SIZE") == "database.pool_size");
  const Config config = load({{},
                              {{"FF_RECONCILER_RECONCILERS_LEASE_EXPIRY_INTERVAL", "9s"},
                               {"FF_RECONCILER_RECONCILERS_LEASE_EXPIRY_MAX_RECLAIMS", "unlimited"},
                               {"FF_RECONCILER_RECONCILERS_LEASE_EXPIRY_FILTER_NAMESPACE", "x"},
                               {"FF_RECONCILER_PARTITIONS", "{shard: 1, of: 2}"}},
                              {}},
                             decls());
  CHECK(config.reconcilers[1].interval == 9s);
  CHECK(config.reconcilers[1].settings.at("max_reclaims") == std::nullopt);
  CHECK(config.reconcilers[1].filter.name_space == "x");
  CHECK(config.partitions == PartitionChoice{PartitionShard{1, 2}});
}

TEST_CASE("the environment has a short name for the database URL") {
  CHECK(load({{}, {{"FF_DATABASE_URL", "host=a"}}, {}}, decls()).database.url == "host=a");
  const auto both =
      problems_of({{}, {{"FF_DATABASE_URL", "host=a"}, {"FF_RECONCILER_DATABASE_URL", "host=b"}}, {}});
  REQUIRE(both.size() == 1);
  CHECK(both[0].key == "FF_RECONCILER_DATABASE_URL");
  CHECK(both[0].message == "says the same as FF_DATABASE_URL (allowed: one of them)");
}

TEST_CASE("an empty environment variable counts as not set") {
  CHECK(load({{}, {{"FF_DATABASE_URL", ""}, {"FF_RECONCILER_THREADS", ""}}, {}}, decls()).threads == 4);
}

TEST_CASE("foreign environment variables are left alone") {
  const Environment environment{{"PATH", "/bin"},
                                {"PGPASSWORD", "x"},
                                {"FF_OTHER", "y"},
                                {"FF_RECONCILER_SERVICE_HOST", "10.0.0.1"},
                                {"FF_RECONCILER_SERVICE_PORT_METRICS", "9464"},
                                {"FF_RECONCILER_PORT", "tcp://10.0.0.1:9464"},
                                {"FF_RECONCILER_PORT_9464_TCP_ADDR", "10.0.0.1"},
                                {"FF_RECONCILER_METRICS_PORT_9464_TCP", "tcp://10.0.0.1:9464"}};
  CHECK(problems_of({{}, environment, {}}).empty());
}

TEST_CASE("the URL can stand in a file of its own, with one newline at its end") {
  const TemporaryFile url("postgresql://u:hunter2@h/d\n");
  CHECK(load({{}, {{"FF_DATABASE_URL_FILE", url.path()}}, {}}, decls()).database.url ==
        "postgresql://u:hunter2@h/d");
  CHECK(load_yaml("database: {url_file: " + url.path() + "}\n").database.url == "postgresql://u:hunter2@h/d");
}

TEST_CASE("a secret and its file contradict each other in one source") {
  CHECK(only_problem("database:\n  password: x\n  password_file: /y\n", 3, "database.password_file",
                     "contradicts database.password "));
  CHECK(only_problem("database:\n  url_file: /dev/null\n  url: host=a\n", 3, "database.url",
                     "contradicts database.url_file "));
}

TEST_CASE("a password file that is there and empty is named") {
  const TemporaryFile empty(GENERATE("", "\n", "\r\n"));
  CHECK(only_problem("database:\n  password_file: " + empty.path() + "\n", 2, "database.password_file",
                     "the file is empty (allowed: one line with the password)"));
}

TEST_CASE(
    "a directory in the place of a password file is refused, and a file that may come later is warned of") {
  CHECK(only_problem("database:\n  password_file: /\n", 2, "database.password_file",
                     "a directory, not a file (allowed: one line with the password)"));
  const TemporaryFile file("threads: 2\ndatabase: {password_file: /not/there}\n");
  std::vector<Problem> warnings;
  Sources sources{file.path(), {}, {}};
  sources.warn = [&](const Problem& warning) { warnings.push_back(warning); };
  CHECK(load(sources, decls()).threads == 2);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].text() ==
        file.path() +
            ":2: database.password_file: \"/not/there\": the file cannot be read as yet: No such "
            "file or directory (allowed: one line with the password)");
}

TEST_CASE("what may come right by itself is warned of where the URL was said, unless something is wrong") {
  std::vector<std::string> warnings;
  Sources sources{{}, {{"FF_DATABASE_URL", "host=h password=hunter2"}}, {}};
  sources.database_warnings = [](const Database& database) {
    return std::vector{"warning of " + database.password_file};
  };
  sources.warn = [&](const Problem& warning) { warnings.push_back(warning.text()); };
  load(sources, decls());
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].starts_with("environment: FF_DATABASE_URL: \"host=h password="));
  CHECK(warnings[0].ends_with("\": warning of "));
  CHECK(warnings[0].find("hunter2") == std::string::npos);
  sources.check_database = [](const Database&) { return std::string("wrong"); };
  CHECK(problems_of(sources).size() == 1);
  CHECK(warnings.size() == 1);
}

TEST_CASE("a secret replaces its file from a source below, and the other way round") {
  const TemporaryFile url("host=b");
  const std::string yaml = "database: {url: host=a, password: x}\n";
  const Config by_file = load_yaml(yaml, {{"FF_DATABASE_URL_FILE", url.path()},
                                          {"FF_RECONCILER_DATABASE_PASSWORD_FILE", "/never/opened"}});
  CHECK(by_file.database.url == "host=b");
  CHECK(by_file.database.password.empty());
  CHECK(by_file.database.password_file == "/never/opened");
  const Config by_value = load_yaml("database: {url_file: /not/there}\n", {{"FF_DATABASE_URL", "host=c"}});
  CHECK(by_value.database.url == "host=c");
  CHECK(by_value.database.url_file.empty());
}

TEST_CASE("only what cannot change in place is said to need a restart") {
  const Config running = load_yaml("");
  CHECK(restart_needed(running, running).empty());
  const Config in_place = load_yaml(
      "filter: {namespace: a}\nlog: {level: debug}\n"
      "reconcilers: {lease_expiry: {enabled: false, interval: 9s, batch_size: 5, max_reclaims: 7}}\n");
  CHECK(restart_needed(running, in_place).empty());
  const Config other = load_yaml(
      "database: {url: host=a, password: x, pool_size: 9}\npartitions: 0-1\nthreads: 2\nhelpers: "
      "1\nrecovery_grace: 1s\n"
      "http: {listen: 127.0.0.1:1, unready_on_fault: true}\nlog: {format: json}\nshutdown: {grace: "
      "1s}\nmetrics: {per_partition: "
      "true}\n");
  CHECK(restart_needed(running, other) ==
        std::vector<std::string>{"database.url", "database.password", "database.pool_size", "partitions",
                                 "threads", "helpers", "recovery_grace", "http.listen",
                                 "http.unready_on_fault", "log.format", "shutdown.grace",
                                 "metrics.per_partition"});
}
