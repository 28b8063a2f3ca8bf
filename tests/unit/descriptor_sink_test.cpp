// The daemon's log while nobody reads it.
#include "descriptor_sink.hpp"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>

using namespace ff;

namespace {

/// A logger into a pipe of which the test is the reader.
struct Stage {
  Stage() {
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    logger = std::make_shared<spdlog::logger>("", std::make_shared<daemon::DescriptorSink>(ends[1]));
    logger->set_pattern("%v");
  }
  ~Stage() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  std::string read_all() const {
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    std::string text;
    std::array<char, 4096> part{};
    for (ssize_t got; (got = ::read(ends[0], part.data(), part.size())) > 0;)
      text.append(part.data(), static_cast<std::size_t>(got));
    return text;
  }

  std::array<int, 2> ends{};
  std::shared_ptr<spdlog::logger> logger;
};

}  // namespace

TEST_CASE("lines arrive whole and in order, long ones too") {
  Stage stage;
  const std::string longest(20'000, 'x');
  stage.logger->info("one");
  stage.logger->info(longest);
  CHECK(stage.read_all() == "one\n" + longest + "\n");
}

TEST_CASE("how much was lost is a line of its own kind, whosever the next line is") {
  Stage stage;
  stage.logger = std::make_shared<spdlog::logger>("action", stage.logger->sinks().front());
  stage.logger->set_pattern("[%n] %v");
  for (int i = 0; i < 100; ++i) stage.logger->info(std::string(1000, 'x'));
  stage.read_all();
  stage.logger->info("again");
  const std::string text = stage.read_all();
  CHECK(text.starts_with("[] "));
  CHECK(text.ends_with("lines of the log were lost: nobody read them\n[action] again\n"));
}

TEST_CASE("a log that nobody reads stops nobody, and says how much was lost") {
  Stage stage;
  const std::string line(1000, 'x');
  const int lines = 1000;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < lines; ++i) stage.logger->info(line);
  // Once as long as a slow reader is waited for, not for each line.
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds{20});

  const std::string first = stage.read_all();
  const auto written = static_cast<int>(std::count(first.begin(), first.end(), '\n'));
  REQUIRE(written < lines);
  stage.logger->info("again");
  CHECK(stage.read_all() ==
        std::to_string(lines - written) + " lines of the log were lost: nobody read them\nagain\n");
}
