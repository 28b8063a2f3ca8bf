#include "base/small_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "base/time.hpp"

namespace ff {
namespace {

constexpr std::size_t kLargest = std::size_t{1024} * 1024;
constexpr Milliseconds kLongest{5000};

class Descriptor {
 public:
  // Not to wait for somebody who opens the other end of a pipe.
  explicit Descriptor(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

[[noreturn]] void fail() {
  throw std::runtime_error("cannot be read: " + std::generic_category().message(errno));
}

void wait_for_more(int fd, SteadyTime deadline) {
  const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::system().now()).count();
  pollfd polled{fd, POLLIN, 0};
  if (left <= 0 || ::poll(&polled, 1, static_cast<int>(left)) == 0)
    throw std::runtime_error("is no file, and has not come to its end within 5 s");
}

}  // namespace

std::string read_small_file(const std::string& path) {
  const Descriptor file(path);
  struct stat status {};
  if (file.fd() < 0 || ::fstat(file.fd(), &status) != 0) fail();
  const SteadyTime deadline = Clock::system().now() + kLongest;
  std::string text;
  std::array<char, 65'536> part{};
  for (ssize_t got = 1; got != 0;) {
    got = ::read(file.fd(), part.data(), part.size());
    if (got < 0 && errno == EAGAIN) wait_for_more(file.fd(), deadline);
    if (got < 0 && errno != EAGAIN && errno != EINTR) fail();
    if (got > 0) text.append(part.data(), static_cast<std::size_t>(got));
    if (text.size() > kLargest) throw std::runtime_error("larger than 1 MiB");
  }
  if (text.empty() && S_ISFIFO(status.st_mode))
    throw std::runtime_error("is a pipe, and nobody writes to it");
  return text;
}

std::string why_unreadable(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || ::faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) != 0)
    return std::generic_category().message(errno);
  return S_ISDIR(status.st_mode) ? std::generic_category().message(EISDIR) : "";
}

bool is_special_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

bool is_readable_by_others(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && (status.st_mode & S_IROTH) != 0;
}

}  // namespace ff
