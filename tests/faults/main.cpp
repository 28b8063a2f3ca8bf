// What goes wrong around the daemon, on purpose: three replicas under a load of simulated workers, and after each
// chapter an audit of what the workers were told, what the database says, and what the replicas hold.
//
//   ff-faults [--short] [--seed N] [--only NAME[,NAME...]] [--beside PROGRAM] [--json FILE]
//   ff-faults soak [--seconds N] [--rate N] [--seed N] [--json FILE]
//
// The latter is a steady load for long, with a replica killed now and then. --beside: the last replica runs this program,
// another version's.
// The seed gives who is hit, and when; what meets what the machine decides.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <iostream>
#include <optional>
#include <stdexcept>

#include "faults/chapter.hpp"
#include "faults/faults.hpp"
#include "faults/soak.hpp"

namespace ff::faults {
namespace {

struct Options {
  bool brief = false;
  std::uint64_t seed = std::random_device()();
  std::vector<std::string> only = {};  ///< names of faults; empty: all
  std::string beside = {};
  std::string json = {};
};

std::vector<Chapter> chapters(const std::string& beside) {
  std::vector<Chapter> all{
      {"around the daemons",
       {},
       {kills(), terminated_sessions(), connection_limit(), password_rotated(), slow_network(),
        clocks_off()}},
      // What a replica has acted on and not committed stays locked until the server ends its session, at most 10 s later.
      // Workers wait for those rows, and give their step up.
      {"a replica that freezes or is cut off",
       {.outages = true},
       {frozen_replica(), silence_to_daemons(), silence_to_server(), silence_both_ways()}},
      {"the server", {.outages = true}, {immediate_restart(), killed_session(), standstill()}},
      {"a server whose clock is set", {.outages = true, .settable_clock = true}, {clock_set()}},
      // Workers wait for a lock no longer than the daemons do.
      {"tables", {.outages = true}, {locked_table(), changed_tables()}},
      {"a snapshot that is held", {}, {held_snapshot()}},
      {"a disk without room", {.outages = true, .small_disk = true}, {full_disk()}},
      {"a cluster with a standby",
       {.outages = true, .clustered = true},
       {switchover(), killed_primary(), frozen_primary()}},
  };
  for (Chapter& chapter : all) chapter.world.another = beside;
  return all;
}

template <class Number>
Number whole(const std::string& name, const std::string& value) {
  Number number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size())
    throw std::invalid_argument(name + ": a whole number is wanted");
  return number;
}

/// Nothing of a chapter is left where nothing of it is wanted.
std::vector<Chapter> wanted_chapters(const Options& options) {
  std::vector<Chapter> all = chapters(options.beside);
  for (const std::string& name : options.only)
    if (std::none_of(all.begin(), all.end(), [&](const Chapter& chapter) {
          return std::any_of(chapter.faults.begin(), chapter.faults.end(),
                             [&](const Fault& fault) { return fault.name == name; });
        }))
      throw std::invalid_argument("there is no fault " + name);
  for (Chapter& chapter : all)
    std::erase_if(chapter.faults, [&](const Fault& fault) {
      if (options.brief && fault.in_short == 0) return true;
      return !options.only.empty() &&
             std::find(options.only.begin(), options.only.end(), fault.name) == options.only.end();
    });
  std::erase_if(all, [](const Chapter& chapter) { return chapter.faults.empty(); });
  if (::geteuid() != 0 &&
      std::erase_if(all, [](const Chapter& chapter) { return chapter.world.small_disk; }) > 0)
    fmt::print("left out, because only root can make a small disk: a disk without room\n\n");
  if (all.empty()) throw std::invalid_argument("none of these is part of the short form");
  return all;
}

Options options_of(const std::vector<std::string>& words) {
  Options options;
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (*word == "--short") {
      options.brief = true;
      continue;
    }
    if (word + 1 == words.end()) throw std::invalid_argument("there is no option " + *word);
    const std::string& name = *word;
    const std::string& value = *++word;
    if (name == "--seed") {
      options.seed = whole<std::uint64_t>(name, value);
    } else if (name == "--json") {
      options.json = value;
    } else if (name == "--beside") {
      options.beside = value;
    } else if (name == "--only") {
      std::string names = value + ',';
      for (std::size_t end = 0; (end = names.find(',')) != std::string::npos; names.erase(0, end + 1))
        options.only.push_back(names.substr(0, end));
    } else {
      throw std::invalid_argument("there is no option " + name);
    }
  }
  return options;
}

int run_all(const Options& options) {
  fmt::print("seed {}\n\n", options.seed);
  std::vector<ChapterResult> results;
  for (const Chapter& chapter : wanted_chapters(options))
    results.push_back(run(chapter, options.brief, options.seed));
  if (!options.json.empty()) write_json(options.json, options.seed, options.brief, results);
  const bool good =
      std::all_of(results.begin(), results.end(), [](const ChapterResult& each) { return each.good(); });
  fmt::print("{}\n", good ? "everything held" : "something gave way");
  return good ? 0 : 1;
}

// So that each third has its share of what is killed.
constexpr std::chrono::seconds kShortestSoak{120};
constexpr std::chrono::seconds kLongestSoak{65 * 60};
constexpr int kMostRows = 2000;

SoakOptions soak_options_of(const std::vector<std::string>& words) {
  SoakOptions options;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const std::string& name = words[i];
    if (i + 1 == words.size()) throw std::invalid_argument(name + ": a value is missing");
    const std::string& value = words[i + 1];
    if (name == "--seconds") {
      options.length = std::chrono::seconds(whole<int>(name, value));
    } else if (name == "--rate") {
      options.rate = whole<int>(name, value);
    } else if (name == "--seed") {
      options.seed = whole<std::uint64_t>(name, value);
    } else if (name == "--json") {
      options.json = value;
    } else {
      throw std::invalid_argument("there is no option " + name);
    }
  }
  if (options.length < kShortestSoak || options.length > kLongestSoak)
    throw std::invalid_argument(
        fmt::format("--seconds: {} to {}", kShortestSoak.count(), kLongestSoak.count()));
  if (options.rate < 1 || options.rate > kMostRows)
    throw std::invalid_argument(fmt::format("--rate: 1 to {}", kMostRows));
  return options;
}

int run_words(const std::vector<std::string>& words) {
  if (words.empty() || words.front() != "soak") return run_all(options_of(words));
  const bool good = soak(soak_options_of({words.begin() + 1, words.end()}));
  fmt::print("{}\n", good ? "everything held" : "something is broken");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace ff::faults

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return ff::faults::run_words({argv + 1, argv + argc});
  } catch (const std::invalid_argument& error) {
    std::cerr << "ff-faults: " << error.what() << '\n';
    return 64;
  } catch (const std::exception& error) {
    std::cerr << "ff-faults: " << error.what() << '\n';
    return 70;
  }
}
