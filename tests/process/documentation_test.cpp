// What README and the pages in docs say to type: each command is one that there is, and is run.
#include <catch2/catch.hpp>
#include <cctype>
#include <csignal>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "support/database.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;

namespace {

namespace fs = std::filesystem;

/// Why a line of a shell block is not run here.
struct Exception {
  std::string begins;
  std::string why;
};
const std::vector<Exception> kNotRun{
    {"./dev ", "builds and tests all of it, this test included"},
    {"apt-get ", "changes the machine"},
    {"editor ", "wants somebody at the keyboard"},
    {"install -D ", "writes into /etc"},
    {"systemctl ", "wants systemd as the first process; deployment_test verifies the units"},
    {"docker ", "wants a container daemon; deployment_test reads the image's configuration"},
};

std::vector<fs::path> pages() {
  std::vector<fs::path> all{FF_SOURCE_DIRECTORY "/README.md"};
  for (const auto& entry : fs::directory_iterator(FF_SOURCE_DIRECTORY "/docs"))
    if (entry.path().extension() == ".md") all.push_back(entry.path());
  return all;
}

struct Block {
  std::string place;  ///< the page and the line of its first line
  std::string language;
  std::vector<std::string> lines;
};

std::vector<Block> blocks() {
  std::vector<Block> all;
  for (const fs::path& page : pages()) {
    std::ifstream text(page);
    bool inside = false;
    int number = 0;
    for (std::string line; std::getline(text, line);) {
      ++number;
      if (line.starts_with("```")) {
        if (!inside)
          all.push_back({page.filename().string() + ':' + std::to_string(number + 1), line.substr(3), {}});
        inside = !inside;
      } else if (inside) {
        all.back().lines.push_back(line);
      }
    }
  }
  return all;
}

/// A line of a shell block, or one of a session with its answer, without the comment behind it.
std::optional<std::string> command_in(const Block& block, std::string line) {
  if (line.starts_with("$ "))
    line = line.substr(2);
  else if (block.language != "sh")
    return std::nullopt;
  line = line.substr(0, line.find("  #"));
  return line.empty() || line.starts_with("#") ? std::nullopt : std::optional(line);
}

/// A database with the execution that the pages speak of, the configuration file that they name, and a daemon.
class Installation {
 public:
  Installation() {
    auto db = database_.connect();
    insert_core(db, {.partition = {12},
                     .execution = *parse_uuid("0190c5a4-7f3e-7b1a-9c2d-3e4f5a6b7c8d"),
                     .state = runnable()});
    port_ = std::to_string(daemon_.port());
    REQUIRE(wait_until([&] { return daemon_.ready(); }));
  }

  /// With our names for what is called otherwise everywhere.
  std::string as_it_is_here(std::string line) const {
    const std::map<std::string, std::string> names{
        {"/etc/ff-reconciler/ff-reconciler.yaml", file_},
        {"FILE", file_},
        {"NAME", "lease_expiry"},
        {"ff-reconcilerd ", FF_BINARY " "},
        {"{fp:N}:UUID", "{fp:12}:0190c5a4-7f3e-7b1a-9c2d-3e4f5a6b7c8d"},
        {"postgresql://owner@/flowfabric", "\"$URL\""},
        {"-url URL", "-url \"$URL\""},
        {"127.0.0.1:9464", "127.0.0.1:" + port_}};
    for (const auto& [name, ours] : names)
      for (auto at = line.find(name); at != line.npos; at = line.find(name, at + ours.size()))
        line.replace(at, name.size(), ours);
    return line.substr(0, line.find_last_not_of(' ') + 1);
  }

  /// Ends with 0; what goes on until it is stopped is stopped once it is at work.
  void run(const std::string& line) const {
    const bool goes_on = line.find(" run ") != line.npos || line.find("--follow") != line.npos;
    const std::vector<std::string> shell{"sh", "-c", (goes_on ? "exec " : "") + line};
    Environment environment{{"FF_DATABASE_URL", database_.conninfo()},
                            {"URL", database_.conninfo()},
                            {"FF_RECONCILER_HTTP_LISTEN", "127.0.0.1:" + (goes_on ? "0" : port_)}};
    if (!goes_on) {
      const Ended ended = test::run(shell, environment);
      CAPTURE(ended.out, ended.err);
      CHECK(ended.code == 0);
      return;
    }
    environment["PGAPPNAME"] = "documentation";
    Process process(shell, environment);
    auto db = database_.connect();
    CHECK(wait_until([&] {
      return db
          .execute("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'documentation')")
          .one()
          .get<bool>(0);
    }));
    process.signal(SIGTERM);
    const auto code = process.wait();
    CAPTURE(process.out(), process.err());
    CHECK(code == 0);
  }

 private:
  Database database_;
  TemporaryDirectory directory_;
  const std::string file_ = directory_.write("ff-reconciler.yaml", "threads: 2\n");
  mutable RunningDaemon daemon_{{.conninfo = database_.conninfo()}};
  std::string port_;
};

/// The names under which the headings of a page can be linked to: small letters, digits, - for each blank.
std::set<std::string> anchors(const fs::path& page) {
  std::set<std::string> found;
  std::ifstream text(page);
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with('#')) continue;
    std::string anchor;
    for (const char c : line.substr(std::min(line.find(' ') + 1, line.size())))
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == ' ' || c == '-' || c == '_')
        anchor += c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    found.insert(anchor);
  }
  return found;
}

/// Whole lines of blocks, and commands within a sentence, which stand in back quotes.
std::vector<std::string> commands_of_ours() {
  const Ended found =
      run({"sh", "-c",
           R"(cd "$1" && grep -ohE '(^|^\$ |`)ff-reconcilerd [a-z][^`#]*' README.md docs/*.md | sort -u)",
           "sh", FF_SOURCE_DIRECTORY});
  std::istringstream text(found.out);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);)
    lines.push_back(line.substr(line.find("ff-reconcilerd ")));
  return lines;
}

/// Within a sentence, in back quotes and without the program's name: `tick all --dry-run`.
std::vector<std::string> commands_in_sentences() {
  static const std::regex kQuoted("`([a-z][a-z-]* [^`]*--[^`]*)`");
  std::vector<std::string> found;
  for (const fs::path& page : pages()) {
    std::ifstream file(page);
    for (std::string line; std::getline(file, line);)
      for (std::sregex_iterator quoted(line.begin(), line.end(), kQuoted), end; quoted != end; ++quoted)
        found.push_back((*quoted)[1].str());
  }
  return found;
}

/// The text names it, and not only one that begins or ends like it.
bool names_option(const std::string& text, const std::string& option) {
  const auto goes_on = [&](std::size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '-');
  };
  for (auto at = text.find(option); at != std::string::npos; at = text.find(option, at + 1))
    if (!goes_on(at + option.size()) && (at == 0 || !goes_on(at - 1))) return true;
  return false;
}

/// `--reason` of "--reason=TEXT", "[--reason" or "--reason)".
std::string option_in(const std::string& word) {
  static const std::regex kOption("^\\[?(--[a-z][a-z-]*)");
  std::smatch found;
  return std::regex_search(word, found, kOption) ? found[1].str() : std::string();
}

/// Of a command with its words; how many options were looked for.
int check_options(const std::string& line, const std::string& help) {
  std::istringstream words(line);
  int count = 0;
  for (std::string word; words >> word;) {
    const std::string option = option_in(word);
    if (option.empty()) continue;
    CAPTURE(line, option);
    CHECK(names_option(help, option));
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE(
    "an option is found where a text names it, and not where it names another that begins or ends like it") {
  CHECK(names_option("  --exec ID", "--exec"));
  CHECK(names_option("[--exec]", "--exec"));
  CHECK_FALSE(names_option("  --execution ID", "--exec"));
  CHECK_FALSE(names_option("  --exec-all", "--exec"));
  CHECK(names_option("--execution, --exec", "--exec"));
}

TEST_CASE("every command within a sentence has the options that it has") {
  int count = 0;
  for (const std::string& line : commands_in_sentences()) {
    const Ended help = run_binary({line.substr(0, line.find(' ')), "--help"});
    if (help.code == 0) count += check_options(line, help.out);
  }
  CHECK(count > 3);
}

TEST_CASE("every command in the documentation is one that there is, with the options that it has") {
  const auto lines = commands_of_ours();
  CHECK(lines.size() > 10);
  for (const std::string& line : lines) {
    CAPTURE(line);
    std::istringstream words(line.substr(15));
    std::string command;
    words >> command;
    const Ended help = run_binary({command, "--help"});
    CHECK(help.code == 0);
    check_options(line, help.out);
  }
}

TEST_CASE("every command of ours in the documentation does what it is there for") {
  const Installation here;
  std::set<std::string> lines;  // several that differ in the names only are one here
  for (const std::string& line : commands_of_ours()) lines.insert(here.as_it_is_here(line));
  for (const std::string& line : lines) {
    CAPTURE(line);
    here.run(line);
  }
}

TEST_CASE("every other command in a shell block of the documentation has a reason not to be run") {
  int count = 0;
  for (const Block& block : blocks()) {
    for (const std::string& line : block.lines) {
      const auto command = command_in(block, line);
      if (!command || command->starts_with("ff-reconcilerd ")) continue;
      CAPTURE(block.place, *command);
      CHECK(std::any_of(kNotRun.begin(), kNotRun.end(),
                        [&](const Exception& exception) { return command->starts_with(exception.begins); }));
      ++count;
    }
  }
  CHECK(count > 5);
}

TEST_CASE("every configuration in the documentation is one that the daemon accepts") {
  const TemporaryDirectory directory;
  int count = 0;
  for (const Block& block : blocks()) {
    if (block.language != "yaml") continue;
    std::string text;
    for (const std::string& line : block.lines) text += line + '\n';
    CAPTURE(block.place, text);
    const Ended checked = run_binary({"check-config", directory.write("example.yaml", text)});
    CAPTURE(checked.err);
    CHECK(checked.code == 0);
    ++count;
  }
  CHECK(count >= 6);
}

TEST_CASE("every link in the documentation leads to a file, and to a heading where it names one") {
  static const std::regex kLink(R"(\]\(([^)#:]*)(#([^)]*))?\))");
  auto all = pages();
  for (const char* more : {"/CONTRIBUTING.md", "/SECURITY.md"})
    all.emplace_back(FF_SOURCE_DIRECTORY + std::string(more));
  int count = 0;
  for (const fs::path& page : all) {
    std::ifstream file(page);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (std::sregex_iterator link(text.begin(), text.end(), kLink), end; link != end; ++link, ++count) {
      CAPTURE(page.filename().string(), link->str());
      const fs::path target = (*link)[1].length() == 0 ? page : page.parent_path() / (*link)[1].str();
      CHECK(fs::exists(target));
      if ((*link)[3].matched) CHECK(anchors(target).contains((*link)[3].str()));
    }
  }
  CHECK(count > 40);
}
