#include "notify.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace ff::daemon {

void notify_service_manager(const std::string& message) {
  const char* where = std::getenv("NOTIFY_SOCKET");
  if (where == nullptr || *where == '\0') return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(where);
  if (length >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, where, length);
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // the abstract name space
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  ::sendto(fd, message.data(), message.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
           size);
  ::close(fd);
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
