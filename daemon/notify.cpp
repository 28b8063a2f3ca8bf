#include "notify.hpp"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

#include "base/printable.hpp"

namespace ff::daemon {

namespace {

// 0: it has been sent; else the errno of what kept it from that.
int send_within(int fd, const std::string& message, Milliseconds wait) {
  const SteadyTime until = Clock::system().now() + wait;
  for (;;) {
    if (::send(fd, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return 0;
    const int error = errno;
    if (error != EAGAIN && error != EINTR) return error;
    const auto left = std::chrono::ceil<Milliseconds>(until - Clock::system().now()).count();
    if (left <= 0) return error;
    pollfd room{fd, POLLOUT, 0};
    ::poll(&room, 1, static_cast<int>(left));
  }
}

// Connected, because otherwise poll() does not tell whether the other end has room.
int deliver(const std::string& where, const std::string& message, Milliseconds wait) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (where.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  std::memcpy(address.sun_path, where.data(), where.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // the abstract name space
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + where.size());
  const int error = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0
                        ? send_within(fd, message, wait)
                        : errno;
  ::close(fd);
  return error;
}

}  // namespace

bool notify_service_manager(const std::string& message, Milliseconds wait) {
  const char* where = std::getenv("NOTIFY_SOCKET");
  if (where == nullptr || *where == '\0') return true;
  const int error = deliver(where, message, wait);
  static std::atomic<bool> warned = false;
  if (!warned.exchange(error != 0) && error != 0)
    spdlog::warn("a message to the service manager over NOTIFY_SOCKET {} was dropped: {}", printable(where),
                 error == EAGAIN ? "nobody reads what is there" : std::generic_category().message(error));
  return error == 0;
}

std::optional<Milliseconds> watchdog_interval() {
  const char* text = std::getenv("WATCHDOG_USEC");
  if (text == nullptr) return std::nullopt;
  if (const char* pid = std::getenv("WATCHDOG_PID"); pid != nullptr && std::to_string(::getpid()) != pid)
    return std::nullopt;
  const std::string_view digits(text);
  std::int64_t usec = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), usec);
  if (error != std::errc{} || end != digits.data() + digits.size() || usec <= 0) return std::nullopt;
  return std::chrono::duration_cast<Milliseconds>(std::chrono::microseconds{usec});
}

std::string monotonic_usec() {
  const auto now = Clock::system().now().time_since_epoch();
  return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

}  // namespace ff::daemon
