#include "bench/own_process.hpp"

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

namespace ff::bench {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

double status_mib(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ':')) return std::stod(line.substr(name.size() + 1)) / 1024;
  throw std::runtime_error("/proc/self/status has no line " + name);
}

void write_all(int fd, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const auto written = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (written < 0) ::_exit(EXIT_FAILURE);  // the parent sees an answer that is too short
    done += static_cast<std::size_t>(written);
  }
}

std::string read_all(int fd) {
  std::string bytes;
  std::array<char, 1024> part{};
  for (;;) {
    const auto got = ::read(fd, part.data(), part.size());
    if (got == 0) return bytes;
    if (got < 0 && errno != EINTR) fail("read");
    if (got > 0) bytes.append(part.data(), static_cast<std::size_t>(got));
  }
}

// Ends without any destructor: what the copy holds belongs to the original.
[[noreturn]] void answer(const std::function<Effort()>& work, int report) {
  try {
    const Effort effort = work();
    std::string bytes(sizeof effort, '\0');
    std::memcpy(bytes.data(), &effort, sizeof effort);
    write_all(report, bytes);
  } catch (const std::exception& error) {
    write_all(report, error.what());
    ::_exit(EXIT_FAILURE);
  }
  ::_exit(EXIT_SUCCESS);
}

}  // namespace

Effort in_own_process(const std::function<Effort()>& work) {
  // Free memory that the copy inherits would hide its growth.
  ::malloc_trim(0);
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) fail("pipe");
  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) answer(work, ends[1]);
  ::close(ends[1]);
  const std::string bytes = read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail("waitpid");
  Effort effort;
  if (status != 0 || bytes.size() != sizeof effort)
    throw std::runtime_error("the measuring process failed: " +
                             (bytes.empty() ? "status " + std::to_string(status) : bytes));
  std::memcpy(&effort, bytes.data(), sizeof effort);
  return effort;
}

double resident_mib() {
  return status_mib("VmRSS");
}
double most_resident_mib() {
  return status_mib("VmHWM");
}

}  // namespace ff::bench
