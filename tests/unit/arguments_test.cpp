#include "arguments.hpp"

#include <catch2/catch.hpp>

using namespace ff::daemon;
using Words = std::vector<std::string>;

namespace {

int nothing(const Arguments&) {
  return 0;
}

const std::vector<Command>& commands() {
  static const std::vector<Command> all{
      {"run", {}, "The daemon.", {"config"}, nothing},
      {"tick",
       {"NAME...|all", 1, 3},
       "One pass.",
       {"config", "batch-size", "partitions", "instance-tag", "dry-run", "json"},
       nothing},
      {"check-config", {"[FILE]", 0, 1}, "Validates.", {"print-default"}, nothing},
      {"version", {}, "Version.", {}, nothing},
  };
  return all;
}

Invocation understood(const Words& line) {
  return understand(line, commands());
}

std::string refusal(const Words& line) {
  try {
    understood(line);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(accepted)";
}

}  // namespace

TEST_CASE("options may stand before, between and after the words") {
  const Words line = GENERATE(
      Words{"--config", "f", "--json", "tick", "a", "b"}, Words{"tick", "--config", "f", "a", "--json", "b"},
      Words{"tick", "a", "b", "--json", "--config", "f"}, Words{"--json", "tick", "a", "b", "--config=f"});
  const Invocation invocation = understood(line);
  CHECK(invocation.command->name == "tick");
  CHECK_FALSE(invocation.help);
  CHECK(invocation.arguments.words() == Words{"a", "b"});
  CHECK(invocation.arguments.text("config") == "f");
  CHECK(invocation.arguments.has("json"));
  CHECK_FALSE(invocation.arguments.has("dry-run"));
  CHECK_FALSE(invocation.arguments.has("batch-size"));
  CHECK(invocation.arguments.text("batch-size") == std::nullopt);
}

TEST_CASE("an option that stands where a value is missing is no value") {
  CHECK_THROWS_AS(understood({"tick", "a", "--config", "--json"}), UsageError);
  CHECK_THROWS_AS(understood({"--config", "--json", "tick", "a"}), UsageError);
}

TEST_CASE("a value may hold blanks and equals signs and begin like an option") {
  CHECK(understood({"tick", "a", "--config", "with space"}).arguments.text("config") == "with space");
  CHECK(understood({"tick", "a", "--config=--json"}).arguments.text("config") == "--json");
  CHECK(understood({"tick", "a", "--config", "host=x user=y"}).arguments.text("config") == "host=x user=y");
}

TEST_CASE("unknown options are refused with their name") {
  CHECK_THAT(refusal({"run", "--confog", "f"}), Catch::Contains("--confog"));
  CHECK_THAT(refusal({"--nothing", "run"}), Catch::Contains("--nothing"));
  CHECK(refusal({"run", "-c", "f"}) != "(accepted)");
  CHECK(refusal({"run", "-x"}) != "(accepted)");
}

TEST_CASE("abbreviated options are refused, so that a later option cannot change their meaning") {
  CHECK_THAT(refusal({"run", "--conf", "f"}), Catch::Contains("--conf"));
  CHECK_THAT(refusal({"tick", "a", "--dry"}), Catch::Contains("--dry"));
  CHECK_THAT(refusal({"--hel"}), Catch::Contains("--hel"));
}

TEST_CASE("repeated options are refused") {
  CHECK_THAT(refusal({"run", "--config", "a", "--config", "b"}), Catch::Contains("--config"));
  CHECK_THAT(refusal({"--config", "a", "run", "--config", "a"}), Catch::Contains("--config"));
  CHECK(refusal({"tick", "a", "--json", "--json"}) != "(accepted)");
}

TEST_CASE("an option without its value and a switch with one are refused") {
  CHECK_THAT(refusal({"run", "--config"}), Catch::Contains("--config"));
  CHECK_THAT(refusal({"run", "--config="}), Catch::Contains("--config"));
  CHECK(refusal({"tick", "a", "--json=maybe"}) != "(accepted)");
}

TEST_CASE("options of other commands are refused") {
  CHECK(refusal({"run", "--dry-run"}) == "run has no option --dry-run");
  CHECK_THAT(refusal({"check-config", "--config", "f"}),
             Catch::StartsWith("check-config has no option --config (write check-config "));
  CHECK(refusal({"--batch-size", "5", "run"}) == "run has no option --batch-size");
  CHECK(refusal({"version", "--config", "f"}) == "version has no option --config");
}

TEST_CASE("stray and missing words are refused") {
  CHECK(refusal({"run", "now"}) == "run: stray word \"now\"");
  CHECK(refusal({"check-config", "a", "b"}) == "check-config: stray word \"b\"");
  CHECK(refusal({"tick"}) == "tick: missing NAME...|all");
  CHECK(refusal({"tick", "--json"}) == "tick: missing NAME...|all");
}

TEST_CASE("no command, an unknown one and an abbreviated one are refused") {
  CHECK(refusal({}) == "no command given");
  CHECK(refusal({"--config", "f"}) == "no command given");
  CHECK_THAT(refusal({"start"}),
             Catch::Contains("\"start\"") && Catch::Contains("run, tick, check-config, version"));
  CHECK_THAT(refusal({"ver"}), Catch::Contains("\"ver\""));
  CHECK_THAT(refusal({""}), Catch::Contains("\"\""));
}

TEST_CASE("a misspelled command or option is answered with the one that was probably meant") {
  CHECK_THAT(refusal({"verzion"}), Catch::Contains("\"verzion\": did you mean version?"));
  CHECK_THAT(refusal({"tick", "a", "--jsn"}), Catch::Contains("\"--jsn\": did you mean --json?"));
  CHECK_THAT(refusal({"tick", "a", "--something-else"}), !Catch::Contains("did you mean"));
}

TEST_CASE("-h and --version are understood as they are everywhere") {
  CHECK(understood({"-h"}).help);
  CHECK(understood({"-h"}).command == nullptr);
  CHECK(understood({"tick", "-h"}).help);
  CHECK(understood({"tick", "-h"}).command->name == "tick");
  CHECK(understood({"--version"}).command->name == "version");
}

TEST_CASE("-h asks for help wherever --help does, and is a value where one is wanted") {
  const Words line = GENERATE(Words{"tick", "lease_expiry", "-h"}, Words{"tick", "a", "b", "-h"},
                              Words{"tick", "--json", "-h"}, Words{"-h", "tick"}, Words{"tick", "-h", "a"});
  CAPTURE(line);
  CHECK(understood(line).help);
  CHECK(understood(line).command->name == "tick");
  const Invocation valued = understood({"tick", "a", "--config", "-h"});
  CHECK_FALSE(valued.help);
  CHECK(valued.arguments.text("config") == "-h");
  CHECK(understood({"tick", "--", "-h"}).arguments.words() == Words{"-h"});
}

TEST_CASE("the dashes of an option do not make it nearer to another, and --version stands alone") {
  CHECK_THAT(refusal({"--verion"}), Catch::Contains("\"--verion\": did you mean --version?"));
  CHECK_THAT(refusal({"run", "--halp"}), Catch::Contains("\"--halp\": did you mean --help?"));
  CHECK(refusal({"run", "--version"}) == "unrecognised option \"--version\": write --version alone");
}

TEST_CASE("numbers are whole, complete and within their bounds") {
  const auto number = [](const std::string& text) {
    return understood({"tick", "a", "--batch-size=" + text}).arguments.number("batch-size", 1, 100);
  };
  CHECK(number("1") == 1);
  CHECK(number("100") == 100);
  for (const char* text :
       {"0", "101", "-1", "", "x", "1x", " 1", "1.0", "0x10", "+1", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(number(text), UsageError);
  }
  CHECK_THROWS_WITH(number("0"), "--batch-size: \"0\" is no whole number from 1 to 100");
  CHECK(understood({"tick", "a"}).arguments.number("batch-size", 1, 100) == std::nullopt);
}

TEST_CASE("help is given for the program and for a command, without its words") {
  const Invocation all = understood({"--help"});
  CHECK(all.help);
  CHECK(all.command == nullptr);
  const Invocation one = understood(GENERATE(Words{"tick", "--help"}, Words{"--help", "tick"}));
  CHECK(one.help);
  CHECK(one.command->name == "tick");
}

TEST_CASE("help lists every command, and a command's help each of its options") {
  const std::string all = help(commands(), nullptr);
  for (const Command& command : commands()) {
    CHECK_THAT(all,
               Catch::Contains(std::string(command.name)) && Catch::Contains(std::string(command.summary)));
    const std::string one = help(commands(), &command);
    CHECK_THAT(one, Catch::StartsWith("usage: ff-reconcilerd " + std::string(command.name)));
    for (const std::string_view option : command.options)
      CHECK_THAT(one, Catch::Contains("--" + std::string(option)));
  }
  CHECK_THAT(help(commands(), &commands().front()), !Catch::Contains("--dry-run"));
}

TEST_CASE("what is said of a line repeats no password that was typed into the wrong place") {
  const Words line = GENERATE(
      Words{"postgresql://u:hunter2@h/d"}, Words{"version", "host=h password=hunter2"},
      Words{"run", "--config", "--postgresql://u:hunter2@h"}, Words{"run", "--postgresql://u:hunter2@h/d="},
      Words{"tick", "--batch-size=l://u:hunter2@h/d", "a", "b", "c",
            "ql://u:hunter2@postgresql://u:hunter2@h/d"});
  const std::string message = refusal(line);
  CAPTURE(message);
  CHECK(message.find("hunter2") == std::string::npos);
  CHECK(message.find("***") != std::string::npos);
}

TEST_CASE("what was typed is repeated on one line that steers no terminal, and not at length") {
  CHECK(in_quotes("\x1b[2J\xff\nx") == R"("\x1b[2J\xff x")");
  CHECK(in_quotes(std::string(100'000, 'x')).size() < 200);
}

TEST_CASE("nor does what is said of an option's value") {
  const auto said_of = [](const std::string& option, auto read) {
    const Invocation invocation = understood({"tick", "all", option});
    try {
      read(invocation.arguments);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("(accepted)");
  };
  CHECK(said_of("--batch-size=postgresql://u:hunter2@h/d", [](const Arguments& given) {
          given.number("batch-size", 1, 10);
        }) == "--batch-size: \"postgresql://u:***@h/d\" is no whole number from 1 to 10");
  CHECK(said_of("--partitions=postgresql://u:hun,ter2@h/d", [](const Arguments& given) {
          given.partitions();
        }) == "--partitions: \"postgresql://u:***@h/d\" is no list of partitions");
  CHECK(said_of("--partitions=0,x-3", [](const Arguments& given) { given.partitions(); }) ==
        "--partitions: \"x-3\" is no partition or range of partitions (allowed: 0 to 32767, such as 7 or "
        "0-63)");
  CHECK(said_of("--instance-tag=postgresql://u:hunter2@h/d", [](const Arguments& given) {
          given.instance_tag();
        }) == "--instance-tag: \"postgresql://u:***@h/d\" is not KEY=VALUE");
}

TEST_CASE("an option that is named like a placeholder of Boost's is refused") {
  CHECK(refusal({"run", "--%original_token%"}) == "unrecognised option \"--%original_token%\"");
  CHECK(refusal({"run", "--x=%original_token%"}).starts_with("unrecognised option \"--x"));
  CHECK(refusal({"run", "--conifg=f"}) == "unrecognised option \"--conifg=f\": did you mean --config?");
}
