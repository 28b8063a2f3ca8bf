// The manual pages and the completion, as groff and bash see them.
#include <catch2/catch.hpp>
#include <set>
#include <sstream>

#include "config/options.hpp"
#include "configuration.hpp"
#include "manual.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;

namespace {

std::string manual(const std::string& what) {
  const Ended printed = run_binary({"manual", what});
  REQUIRE(printed.code == 0);
  return printed.out;
}

/// The page as a reader has it, on lines that nothing breaks.
std::string shown(const std::string& page) {
  const Ended formatted = run({"groff", "-man", "-Tascii", "-P-cbou", "-rLL=2000n", "-ww"}, {}, manual(page));
  CHECK(formatted.code == 0);
  CHECK(formatted.err == "");
  return formatted.out;
}

std::set<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::set<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

/// What bash offers for the last of these words.
std::set<std::string> offered(const std::string& words) {
  const TemporaryDirectory directory;
  const std::string file = directory.write("completion", manual("bash-completion"));
  const Ended completed =
      run({"bash", "-uc",
           "source \"$0\"; complete -p ff-reconcilerd >&2; COMP_WORDS=(ff-reconcilerd " + words +
               "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _ff_reconcilerd; "
               "if ((${#COMPREPLY[@]})); then printf '%s\\n' \"${COMPREPLY[@]}\"; fi",
           file});
  CHECK(completed.code == 0);
  CHECK(completed.err == "complete -F _ff_reconcilerd ff-reconcilerd\n");
  return lines_of(completed.out);
}

using Set = std::set<std::string>;

}  // namespace

TEST_CASE("groff finds nothing to say about the manual pages, at the width of a terminal either") {
  const std::string page = GENERATE("ff-reconcilerd.8", "ff-reconciler.yaml.5");
  shown(page);
  const Ended narrow = run({"groff", "-man", "-Tutf8", "-rLL=78n", "-ww", "-z"}, {}, manual(page));
  CHECK(narrow.err == "");
}

TEST_CASE("the daemon's manual page has what each command's help says") {
  const std::string page = shown("ff-reconcilerd.8");
  std::istringstream all(run_binary({"--help"}).out);
  int count = 0;
  for (std::string line; std::getline(all, line);) {
    if (!line.starts_with("  ")) continue;
    std::istringstream words(line);
    std::string command;
    words >> command;
    CAPTURE(command);
    CHECK_THAT(page, Catch::Contains(line.substr(line.find_first_not_of(' ', 2 + command.size()))));
    std::istringstream help(run_binary({command, "--help"}).out);
    for (std::string option; std::getline(help, option);) {
      if (!option.starts_with("  --")) continue;
      const auto summary = option.find_last_of(' ', option.find("  ", 4)) + 1;
      CHECK_THAT(page, Catch::Contains(option.substr(2, option.find("  ", 2) - 2)));
      CHECK_THAT(page, Catch::Contains(option.substr(option.find_first_not_of(' ', summary))));
    }
    ++count;
  }
  CHECK(count > 10);
}

TEST_CASE("the configuration's manual page has each key with what is allowed") {
  const std::string page = shown("ff-reconciler.yaml.5");
  for (const config::Option& key : config::options(daemon::reconciler_decls())) {
    CAPTURE(key.path);
    const auto at = page.find(' ' + key.path);
    REQUIRE(at != std::string::npos);
    CHECK(page.find(config::allowed(key).substr(1), at) != std::string::npos);
  }
  CHECK_THAT(page, Catch::Contains("A whole number, 1 to 1000. Default: 8. A change needs a restart."));
}

TEST_CASE("nothing in a text is taken for a request or an escape of roff") {
  CHECK(daemon::roff(".TH \\n") == "\\&.TH \\(rsn");
  CHECK(daemon::roff("--json 'x'") == "\\-\\-json \\(aqx\\(aq");
}

TEST_CASE("a manual page that there is not is refused") {
  const Ended refused = run_binary({"manual", "ff-reconcilerd.1"});
  CHECK(refused.code == 64);
  CHECK_THAT(refused.err, Catch::Contains("ff-reconcilerd.8, ff-reconciler.yaml.5, bash-completion"));
}

TEST_CASE("bash completes commands, their options, and names where they are wanted") {
  CHECK(offered("che") == Set{"check-config", "check-db"});
  CHECK(offered("migrate ''") == Set{"up", "status", "sql", "grants"});
  CHECK(offered("migrate grants lease") == Set{"lease_expiry"});
  CHECK(offered("tick --dry-run lease_expiry bud") == Set{"budget_reset"});
  CHECK(offered("tick --d") == Set{"--database-url", "--dry-run"});
  CHECK(offered("version --") == Set{"--help", "--json"});
  CHECK(offered("--config /x tick al") == Set{"all"});
  CHECK(offered("--config = /x tick al") == Set{"all"});
  CHECK(offered("tick --namespace lea").empty());
  CHECK(offered("version ''").empty());
  CHECK(offered("--") == Set{"--help", "--version"});
}

TEST_CASE("bash completes files for a configuration") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("one.yaml", "");
  const std::string begun = file.substr(0, file.size() - 3);
  CHECK(offered("check-config " + begun) == Set{file});
  CHECK(offered("run --config " + begun) == Set{file});
  CHECK(offered("run --config = " + begun) == Set{file});
  CHECK(offered("check-config --") == Set{"--help", "--print-default"});
}
