// Files that somebody else wrote, or that are none.
#include "base/small_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "support/process.hpp"

using namespace ff;
using Catch::Contains;

TEST_CASE("a file is read whole, up to a mebibyte") {
  const test::TemporaryDirectory directory;
  CHECK(read_small_file(directory.write("small", "one\ntwo\n")) == "one\ntwo\n");
  CHECK(read_small_file(directory.write("empty", "")).empty());
  const std::string most(std::size_t{1024} * 1024, 'x');
  CHECK(read_small_file(directory.write("most", most)) == most);
  CHECK_THROWS_WITH(read_small_file(directory.write("more", most + 'x')), Contains("larger than 1 MiB"));
}

TEST_CASE("what is no file is refused instead of waited for") {
  const test::TemporaryDirectory directory;
  CHECK_THROWS_WITH(read_small_file(directory.path() / "none"), Contains("No such file"));
  CHECK_THROWS_WITH(read_small_file(directory.path()), Contains("Is a directory"));
  CHECK_THROWS_WITH(read_small_file("/dev/zero"), Contains("larger than 1 MiB"));
  CHECK(read_small_file("/dev/null").empty());

  const std::string pipe = directory.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(read_small_file(pipe), Contains("nobody writes to it"));
  const int writer = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(writer >= 0);
  CHECK_THROWS_WITH(read_small_file(pipe), Contains("within 5 s"));
  ::close(writer);
}

TEST_CASE("a pipe that somebody writes to is read to its end") {
  const test::TemporaryDirectory directory;
  const std::string pipe = directory.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int both = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);  // so that neither end waits for the other
  REQUIRE(::write(both, "partitions: ", 12) == 12);
  std::thread writer([both] {
    std::this_thread::sleep_for(Milliseconds{50});
    if (::write(both, "0-3\n", 4) == 4) ::close(both);
  });
  CHECK(read_small_file(pipe) == "partitions: 0-3\n");
  writer.join();
}

TEST_CASE("a special file is neither a file, nor a directory, nor nothing") {
  const test::TemporaryDirectory directory;
  const std::string pipe = directory.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(is_special_file(pipe));
  CHECK(is_special_file("/dev/zero"));
  CHECK_FALSE(is_special_file(directory.path()));
  CHECK_FALSE(is_special_file(directory.write("file", "x")));
  CHECK_FALSE(is_special_file(directory.path() / "none"));
}

TEST_CASE("who may read a file is known") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.write("password", "x");
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  CHECK_FALSE(is_readable_by_others(path));
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  CHECK(is_readable_by_others(path));
  CHECK_FALSE(is_readable_by_others(directory.path() / "none"));
}
