#include "support/proxy.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <vector>

#include "base/time.hpp"

namespace ff::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSocketName = ".s.PGSQL.5432";  // as of a server at the default port
constexpr Milliseconds kBetweenLooks{20};             // whether a silence is over
constexpr std::size_t kPartSize = 65'536;
constexpr std::size_t kMostOnItsWay = 64UL << 20;

sockaddr_un address_of(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    fail(path);
  }
  std::memcpy(address.sun_path, path.c_str(), path.native().size());
  return address;
}

class Socket {
 public:
  explicit Socket(int owned) : fd_(owned) {}
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// One direction of a connection.
class Stream {
 public:
  Stream(int from, int to) : from_(from), to_(to) {}

  bool wants_to_read() const { return !heard_all_ && on_its_way_ < kMostOnItsWay; }
  bool wants_to_write() const { return blocked_; }
  bool done() const { return done_; }
  SteadyTime next() const {
    return parts_.empty() || blocked_ || silent_ ? SteadyTime::max() : parts_.front().due;
  }
  void silence(bool silent) { silent_ = silent; }

  // False: the connection is broken.
  bool read(std::chrono::nanoseconds delay) {
    const auto got = ::recv(from_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    heard_all_ = got == 0;  // the end travels as an empty part
    parts_.push_back(
        {Clock::system().now() + delay, std::string(buffer_.data(), static_cast<std::size_t>(got)), 0});
    on_its_way_ += static_cast<std::size_t>(got);
    return true;
  }

  // Passes on what is due. False: the connection is broken.
  bool write() {
    blocked_ = false;
    while (!silent_ && !parts_.empty() && parts_.front().due <= Clock::system().now()) {
      Part& part = parts_.front();
      if (part.bytes.empty()) {
        done_ = true;
        parts_.clear();
        return ::shutdown(to_, SHUT_WR) == 0;
      }
      const auto sent = ::send(to_, part.bytes.data() + part.sent, part.bytes.size() - part.sent,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
      blocked_ = sent < 0 && errno == EAGAIN;
      if (blocked_) return true;
      if (sent < 0 && errno != EINTR) return false;
      part.sent += static_cast<std::size_t>(std::max<decltype(sent)>(sent, 0));
      if (part.sent < part.bytes.size()) continue;
      on_its_way_ -= part.bytes.size();
      parts_.pop_front();
    }
    return true;
  }

 private:
  struct Part {
    SteadyTime due;
    std::string bytes;
    std::size_t sent;
  };
  const int from_;
  const int to_;
  std::vector<char> buffer_ = std::vector<char>(kPartSize);
  std::deque<Part> parts_;
  std::size_t on_its_way_ = 0;
  bool heard_all_ = false;
  bool blocked_ = false;
  bool silent_ = false;
  bool done_ = false;
};

// What a descriptor is waited for; the negative one of somebody who waits for nothing is left out, because a
// peer that has hung up would be reported again and again.
pollfd waiting(int fd, const Stream& from, const Stream& to) {
  const auto events =
      static_cast<short>((from.wants_to_read() ? POLLIN : 0) | (to.wants_to_write() ? POLLOUT : 0));
  return {events == 0 ? -1 : fd, events, 0};
}

void wait(std::array<pollfd, 3>& all, SteadyTime until) {
  timespec timeout{};
  if (until != SteadyTime::max()) {
    const std::chrono::nanoseconds left =
        std::max<std::chrono::nanoseconds>(until - Clock::system().now(), std::chrono::nanoseconds{0});
    timeout = {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
  }
  if (::ppoll(all.data(), all.size(), until == SteadyTime::max() ? nullptr : &timeout, nullptr) >= 0) return;
  if (errno != EINTR) fail("ppoll");
  for (pollfd& each : all) each.revents = 0;
}

}  // namespace

// Returns when both sides have said all, when the connection breaks, or when it is to end.
void Proxy::relay(int client, int server) {
  // The kernel would otherwise wake us up to 50 us late.
  if (::prctl(PR_SET_TIMERSLACK, 1UL) != 0) fail("prctl");
  Stream there(client, server);
  Stream back(server, client);
  while (!there.done() || !back.done()) {
    std::array<pollfd, 3> all{waiting(client, there, back), waiting(server, back, there),
                              pollfd{stop_.fd(), POLLIN, 0}};
    const SteadyTime next_scan =
        silence_ == Silence::none ? SteadyTime::max() : Clock::system().now() + kBetweenLooks;
    wait(all, std::min({there.next(), back.next(), next_scan}));
    if (stop_.raised()) return;
    const Silence silence = silence_;
    there.silence(silence == Silence::to_server || silence == Silence::both);
    back.silence(silence == Silence::to_client || silence == Silence::both);
    const auto can_read = [](const pollfd& each) {
      return (each.revents & (POLLIN | POLLHUP | POLLERR)) != 0;
    };
    if (there.wants_to_read() && can_read(all[0]) && !there.read(one_way_)) return;
    if (back.wants_to_read() && can_read(all[1]) && !back.read(one_way_)) return;
    if (!there.write() || !back.write()) return;
  }
}

Proxy::Proxy(const fs::path& server, std::chrono::nanoseconds round_trip)
    : server_socket_(server / kSocketName), one_way_(round_trip / 2) {
  const fs::path path = directory_.path() / kSocketName;
  const sockaddr_un address = address_of(path);
  listening_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listening_ < 0) fail("socket");
  if (::bind(listening_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listening_, SOMAXCONN) != 0) {
    const int error = errno;
    ::close(listening_);
    throw std::system_error(error, std::generic_category(), path);
  }
  listener_ = std::jthread([this] { listen(); });
}

Proxy::~Proxy() {
  stop_.raise();
  listener_.join();
  connections_.clear();
  ::close(listening_);
}

std::string Proxy::detour() const {
  return " host='" + directory_.path().string() + "'";  // the last one named counts
}

void Proxy::listen() {
  for (;;) {
    std::array<pollfd, 2> all{pollfd{listening_, POLLIN, 0}, pollfd{stop_.fd(), POLLIN, 0}};
    if (::poll(all.data(), all.size(), -1) < 0 && errno != EINTR) fail("poll");
    if (stop_.raised()) return;
    const int client = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client >= 0) connections_.emplace_back([this, client] { connect(client); });
  }
}

// A server that cannot be reached looks to the client like one that hangs up.
void Proxy::connect(int accepted) {
  const Socket client(accepted);
  const Socket server(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(server_socket_);
  if (::connect(server.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    relay(client.fd(), server.fd());
}

}  // namespace ff::test
