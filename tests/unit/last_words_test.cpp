// What a program says that ends by something that nobody has caught.
#include "last_words.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>

using namespace ff::daemon;

namespace {

struct Ended {
  int code = -1;
  std::string err;
};

/// A process of its own in which `work` is done, and nobody catches anything.
template <typename Work>
Ended ended_by(LastForm form, const Work& work) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    std::set_terminate(end_with_last_words);
    set_form_of_last_words(form);
    [&]() noexcept { work(); }();
    ::_exit(0);
  }
  ::close(ends[1]);
  Ended ended;
  std::array<char, 4096> part{};
  for (ssize_t got = 0; (got = ::read(ends[0], part.data(), part.size())) > 0;)
    ended.err.append(part.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

}  // namespace

TEST_CASE("what nobody catches is the last line of the log, and the exit code is 70") {
  const Ended json = ended_by(LastForm::json, [] { throw std::bad_alloc(); });
  CHECK(json.code == 70);
  const auto line = nlohmann::json::parse(json.err);
  CHECK(line["level"] == "critical");
  CHECK(line["message"] == "the program ends at once: std::bad_alloc");
  CHECK(line["time_ms"].is_number());
  CHECK_THAT(ended_by(LastForm::text, [] { throw std::bad_alloc(); }).err,
             Catch::Matches("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}[+-]\\d\\d:\\d\\d critical "
                            "the program ends at once: "
                            "std::bad_alloc\n"));
  CHECK(ended_by(LastForm::journal, [] { throw std::bad_alloc(); }).err ==
        "<2>the program ends at once: std::bad_alloc\n");
  CHECK(ended_by(LastForm::program, [] { std::terminate(); }).err ==
        "ff-reconcilerd: the program ends at once: nothing was thrown\n");
  CHECK(ended_by(LastForm::program, [] { throw 1; }).err == "ff-reconcilerd: the program ends at once: i\n");
}

TEST_CASE("last words are one line that can be read, whatever was thrown") {
  const Ended ended = ended_by(
      LastForm::json, [] { throw std::runtime_error("a\"b\\c\nd" + std::string(5000, 'x') + "\xC3"); });
  CHECK(ended.code == 70);
  const auto line = nlohmann::json::parse(ended.err);
  CHECK_THAT(line["message"].get<std::string>(), Catch::Contains("a'b/c?dxxx"));
  CHECK(ended_by(LastForm::program, [] { throw std::runtime_error("\xC3"); }).err ==
        "ff-reconcilerd: the program ends at once: ?\n");
}
