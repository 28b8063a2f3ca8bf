// Lines to paste carry the configuration that the command was given which prints them.
#include "pasted.hpp"

#include <catch2/catch.hpp>

using ff::daemon::Pasted;

TEST_CASE("a command of ours to paste has the configuration file, before what is not its own") {
  const Pasted pasted("/etc/a b's.yaml");
  const std::string config = R"( --config '/etc/a b'\''s.yaml')";
  CHECK(pasted("ff-reconcilerd tick lease_expiry --execution '{fp:3}:x'") ==
        "ff-reconcilerd tick lease_expiry --execution '{fp:3}:x'" + config);
  CHECK(pasted("ff-reconcilerd migrate up # as the owner of the tables") ==
        "ff-reconcilerd migrate up" + config + " # as the owner of the tables");
  CHECK(pasted("ff-reconcilerd migrate grants --role r | psql") ==
        "ff-reconcilerd migrate grants --role r" + config + " | psql");
  CHECK(pasted("ff-reconcilerd check-config") == R"(ff-reconcilerd check-config '/etc/a b'\''s.yaml')");
}

TEST_CASE("a configuration file whose name cannot be shown is named all the same") {
  CHECK(Pasted("/etc/a\nb\x1b.yaml")("ff-reconcilerd status") ==
        R"(ff-reconcilerd status --config $'/etc/a\x0ab\x1b.yaml')");
}

TEST_CASE("what asks a daemon by its URL has the configuration file, too, for the lines that it prints") {
  CHECK(Pasted("/etc/x.yaml")("ff-reconcilerd quarantine --url http://127.0.0.1:9464") ==
        "ff-reconcilerd quarantine --url http://127.0.0.1:9464 --config '/etc/x.yaml'");
}

TEST_CASE("what stands in quotes is a word, and no comment, pipe or option") {
  for (const std::string word : {"'a | b'", "'a # b'", "'a --config b'", "'it'\\''s, then'"}) {
    const std::string command = "ff-reconcilerd tick lease_expiry --namespace " + word;
    CHECK(Pasted("/etc/x.yaml")(command) == command + " --config '/etc/x.yaml'");
  }
}

TEST_CASE("what is no command of ours, or where there is no file, or one is named, is pasted as it is") {
  for (const char* line :
       {"ANALYZE ff_attempt;", "wait",
        "ff-reconcilerd tick lease_expiry # with the --config of a file that has not this filter"})
    CHECK(Pasted("/etc/x.yaml")(line) == line);
  CHECK(Pasted()("ff-reconcilerd status") == "ff-reconcilerd status");
}
