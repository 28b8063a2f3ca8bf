// `check-config`, and what every command does with the configuration that it is given.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/database.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;

TEST_CASE("hold_above may be off, which is printed and read back, as 0 is") {
  const TemporaryDirectory directory;
  const Ended done = run_binary(
      {"check-config",
       directory.write("c.yaml",
                       "reconcilers:\n  execution_deadline: {hold_above: off}\n  suspension_timeout: "
                       "{hold_above: 0}\n  outbox_retention: {hold_above: 7}\n")});
  CHECK(done.code == 0);
  CHECK_THAT(done.out, Catch::Contains("hold_above: off\n") && Catch::Contains("hold_above: 7\n") &&
                           !Catch::Contains("hold_above: 0"));
  CHECK(run_binary({"check-config", directory.write("again.yaml", done.out)}).out == done.out);
}

TEST_CASE("check-config prints what a file means, without its secrets") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("good.yaml",
                                           "database: {url: 'postgresql://u:geheim1@h/d?password=geheim2', "
                                           "password: geheim3}\npartitions: [0-3, 9]\n");
  const Ended done = run_binary({"check-config", file});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  CHECK_THAT(done.out, Catch::Contains("partitions: 0-3,9") && Catch::Contains("attempt_timeout:"));
  CHECK_THAT(done.out, !Catch::Contains("geheim"));
}

TEST_CASE("check-config names file, line, key and value of everything that is wrong, and what is allowed") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("bad.yaml",
                                           "partitions: 9-3\n"
                                           "threads: many\n"
                                           "tpyo: 1\n"
                                           "reconcilers:\n"
                                           "  attempt_timeout: {interval: 2}\n"
                                           "database: {url: 'postgresql://u:geheim@h/d', pool_size: 0}\n");
  const Ended refused = run_binary({"check-config", file});
  CHECK(refused.code == 78);
  CHECK(refused.out.empty());
  CHECK_THAT(refused.err, Catch::Contains(file + ":1: partitions: \"9-3\": "));
  CHECK_THAT(refused.err, Catch::Contains(file + ":2: threads: \"many\": "));
  CHECK_THAT(refused.err, Catch::Contains(file + ":3: tpyo: "));
  CHECK_THAT(refused.err, Catch::Contains(file + ":5: reconcilers.attempt_timeout.interval: \"2\": "));
  CHECK_THAT(refused.err, Catch::Contains(file + ":6: database.pool_size: \"0\": "));
  CHECK_THAT(refused.err, !Catch::Contains("geheim"));
  std::istringstream lines(refused.err);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK_THAT(line, Catch::Contains("(allowed: "));
  }
}

TEST_CASE("a URL that can never work is told with file and line, beside all that is wrong elsewhere") {
  const TemporaryDirectory directory;
  const auto url = GENERATE(
      "host=db port=99999999 password=geheim", "host=db sslmode=bogus password=geheim",
      "postgresql://u:geheim@h:bad:port/d", "host=db password=geheim target_session_attrs=any",
      "host=db port=0 password=geheim", "host=a,b port=5432,54x2 password=geheim",
      "hostaddr=db1 password=geheim", "postgresql://u:geheim/d", "postgresql://u:a?geheim=b",
      "postgresql://h/d?password=a&geheim=b", "postgresql://u:1?2?geheim=b", "postgresql://u:a?geheim");
  CAPTURE(url);
  const std::string file = directory.write(
      "bad.yaml", "threads: 0\ndatabase:\n  pool_size: many\n  url: \"" + std::string(url) + "\"\n");
  const Ended refused = run_binary({"check-config", file});
  CHECK(refused.code == 78);
  CHECK_THAT(refused.err, Catch::Contains(file + ":1: threads: ") &&
                              Catch::Contains(file + ":3: database.pool_size: ") &&
                              Catch::Contains(file + ":4: database.url: ") && !Catch::Contains("geheim"));
  const std::string of_url = directory.write("url", std::string(url) + "\n");
  const Ended by_file = run_binary(
      {"run", "--config", directory.write("by.yaml", "helpers: x\ndatabase: {url_file: " + of_url + "}\n")});
  CHECK(by_file.code == 78);
  CHECK_THAT(by_file.err, Catch::Contains("by.yaml:1: helpers: ") &&
                              Catch::Contains("by.yaml:2: database.url_file: ") &&
                              !Catch::Contains("geheim"));
  const Ended by_variable = run_binary({"run"}, {{"FF_DATABASE_URL", url}, {"FF_RECONCILER_THREADS", "0"}});
  CHECK(by_variable.code == 78);
  CHECK_THAT(by_variable.err, Catch::Contains("environment: FF_DATABASE_URL: ") &&
                                  Catch::Contains("FF_RECONCILER_THREADS") && !Catch::Contains("geheim"));
}

TEST_CASE(
    "check-config warns of files that cannot be read as yet, and refuses a directory where nothing goes "
    "without") {
  const TemporaryDirectory directory;
  const std::string there = directory.write("there.crt", "x");
  const auto checked = [&](const std::string& database) {
    return run_binary({"check-config", directory.write("c.yaml", "threads: 2\ndatabase:\n" + database)});
  };
  const std::string at = directory.path().string() + "/c.yaml:3: database.";
  const std::string absent = " cannot be read as yet: No such file or directory (allowed: ";
  const Ended password = checked("  password_file: /not/there\n");
  CHECK(password.code == 0);
  CHECK(password.err == "warning: " + at + "password_file: \"/not/there\": the file" + absent +
                            "one line with the password)\n");
  CHECK_THAT(password.out, Catch::Contains("threads: 2"));
  const std::string word = directory.write("word", "geheim\n");
  std::filesystem::permissions(word, std::filesystem::perms(0644));
  const Ended readable = checked("  password_file: " + word + "\n");
  CHECK(readable.code == 0);
  CHECK(readable.err ==
        "warning: " + at + "password_file: \"" + word +
            "\": the file can be read by everybody on this machine (allowed: mode 0600, or 0640)\n");
  std::filesystem::permissions(word, std::filesystem::perms(0640));
  CHECK(checked("  password_file: " + word + "\n").err.empty());
  const Ended root =
      checked("  url: 'postgresql://u:geheim@h/d?sslmode=verify-full&sslrootcert=/not/there'\n");
  CHECK(root.code == 0);
  CHECK_THAT(root.err, Catch::StartsWith("warning: " + at + "url: ") &&
                           Catch::EndsWith("\": sslrootcert=/not/there" + absent + "a file)\n") &&
                           !Catch::Contains("geheim"));
  const Ended both =
      checked("  url: host=h sslcert=/not/there sslkey=/not/either sslrootcert=" + there + "\n");
  CHECK(both.code == 0);
  CHECK_THAT(both.err, Catch::Contains("sslcert=/not/there" + absent) &&
                           Catch::Contains("sslkey=/not/either" + absent) &&
                           !Catch::Contains("sslrootcert" + absent));
  const std::string open = directory.write("open.key", "x");
  std::filesystem::permissions(open, std::filesystem::perms(0644));
  CHECK_THAT(
      checked("  url: host=h sslkey=" + open + "\n").err,
      Catch::EndsWith(": sslkey=" + open +
                      " is open to others, and libpq takes no such key (allowed: mode 0600, or 0640 where "
                      "it belongs to root)\n"));
  std::filesystem::permissions(open, std::filesystem::perms(0600));
  CHECK(checked("  url: host=h sslkey=" + open + "\n").err.empty());
  // What nobody named, what no connection reads, and what is no file.
  for (const char* url : {"host=h sslmode=verify-full", "host=h sslmode=disable sslrootcert=/not/there",
                          "host=/run/postgresql sslmode=verify-full sslrootcert=/not/there",
                          "host=h sslkey=pkcs11:object=daemon"}) {
    CAPTURE(url);
    const Ended fine = checked("  url: " + std::string(url) + "\n");
    CHECK(fine.code == 0);
    CHECK(fine.err.empty());
  }
  CHECK(checked("  url: host=h sslmode=verify-full sslrootcert=system\n").code == 0);
  const Ended refused = checked("  url: host=h sslmode=verify-full sslrootcert=/\n");
  CHECK(refused.code == 78);
  CHECK_THAT(refused.err, Catch::StartsWith(at + "url: ") &&
                              Catch::EndsWith("\": sslrootcert=/ is a directory (allowed: a file)\n"));
  const Ended unencrypted = checked("  url: host=h sslrootcert=/\n");
  CHECK(unencrypted.code == 0);
  CHECK_THAT(unencrypted.err, Catch::Contains("sslrootcert=/ cannot be read as yet: Is a directory"));
  CHECK(checked("  password_file: /\n").code == 78);
  CHECK(run_binary({"check-config", directory.write("e.yaml", "{}\n")},
                   {{"PGHOST", "h"}, {"PGSSLROOTCERT", "/not/there"}})
            .err == "warning: database.url: sslrootcert=/not/there" + absent + "a file)\n");
}

TEST_CASE("check-config refuses a pipe where libpq would read it for ever") {
  const TemporaryDirectory directory;
  const std::string pipe = directory.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const std::string file = directory.write("c.yaml", "database: {url: 'host=h sslrootcert=" + pipe + "'}\n");
  const Ended certificate = run_binary({"check-config", file});
  CHECK(certificate.code == 78);
  CHECK_THAT(certificate.err,
             Catch::EndsWith("sslrootcert=" + pipe + " is a pipe or a device (allowed: a file)\n"));
  const Ended service = run_binary({"check-config", directory.write("e.yaml", "{}\n")},
                                   {{"PGSERVICE", "s"}, {"PGSERVICEFILE", pipe}});
  CHECK(service.code == 78);
  CHECK_THAT(service.err,
             Catch::Contains("PGSERVICEFILE: \"" + pipe + "\": the service file is a pipe or a device"));
}

TEST_CASE("a connection string in the place of a file's name is shown without its password") {
  const Ended ended = run_binary({"check-config", "postgresql://u:geheim@h/d"});
  CHECK(ended.code == 78);
  CHECK_THAT(ended.err, Catch::Contains("postgresql://u:***@h/d") && !Catch::Contains("geheim"));
}

TEST_CASE("a bad configuration is exit code 78 for every command that reads one") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("bad.yaml", "threads: 0\n");
  const auto* command = GENERATE("run", "tick all", "status", "check-db", "migrate status", "healthcheck");
  CAPTURE(command);
  std::istringstream text(command);
  std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  words.insert(words.end(), {"--config", file});
  const Ended refused = run_binary(words);
  CHECK(refused.code == 78);
  CHECK_THAT(refused.err, Catch::Contains(file + ":1: threads"));
  words.back() = (directory.path() / "missing.yaml").string();
  CHECK(run_binary(words).code == 78);
}

TEST_CASE("a configuration comes from flag, environment, file and default, in this order") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("some.yaml", "threads: 3\nrecovery_grace: 7s\n");
  const Ended from_file = run_binary({"check-config", file});
  CHECK_THAT(from_file.out, Catch::Contains("threads: 3\n") && Catch::Contains("recovery_grace: 7s\n"));
  const Ended from_environment = run_binary({"check-config", file}, {{"FF_RECONCILER_THREADS", "5"}});
  CHECK_THAT(from_environment.out,
             Catch::Contains("threads: 5\n") && Catch::Contains("recovery_grace: 7s\n"));

  Database database;
  const Ended from_flag = run_binary({"status", "--database-url", database.conninfo()},
                                     {{"FF_DATABASE_URL", "host=/nonexistent"}});
  CHECK(from_flag.code == 0);
}

TEST_CASE("the sample file is the default configuration, and both are valid") {
  const Ended printed = run_binary({"check-config", "--print-default"});
  REQUIRE(printed.code == 0);
  const std::string sample = std::string(FF_SOURCE_DIRECTORY) + "/config/ff-reconciler.yaml";
  std::ifstream file(sample);
  REQUIRE(file);
  const bool is_default = std::string(std::istreambuf_iterator<char>(file), {}) == printed.out;
  CHECK(is_default);  // else: ff-reconcilerd check-config --print-default > config/ff-reconciler.yaml

  const TemporaryDirectory directory;
  const Ended of_sample = run_binary({"check-config", sample});
  const Ended of_nothing = run_binary({"check-config", directory.write("empty.yaml", "{}\n")});
  CHECK(of_sample.code == 0);
  CHECK(of_sample.out == of_nothing.out);
}

TEST_CASE("what libpq takes from the environment is refused by the name of the variable") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("c.yaml", "database: {url: 'host=h'}\nthreads: many\n");
  const auto [value, why] = GENERATE(table<std::string, std::string>(
      {{"foo",
        "environment: PGTARGETSESSIONATTRS: \"foo\": target_session_attrs has a value that it cannot have"},
       {"standby",
        "environment: PGTARGETSESSIONATTRS: \"standby\": target_session_attrs would take a server that"}}));
  const Ended refused = run_binary({"check-config", file}, {{"PGTARGETSESSIONATTRS", value}});
  CHECK(refused.code == 78);
  CHECK_THAT(refused.err, Catch::Contains(why) && Catch::Contains("c.yaml:2: threads: ") &&
                              !Catch::Contains("database.url"));
}
