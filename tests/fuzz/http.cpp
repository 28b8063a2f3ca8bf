// What a client sends to the daemon's HTTP port, in two pieces, before it says that it is done: it gets answers that are
// well formed, and then the connection is closed. All in one process, over the loopback device.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <set>
#include <stdexcept>
#include <system_error>

#include "http_server.hpp"
#include "promise.hpp"

namespace {

using namespace ff;
using namespace std::chrono_literals;

constexpr auto kLongest = 5s;

daemon::Routes routes() {
  return {{"/",
           [] {
             return daemon::HttpReply{200, "text/html", "<p>page", {{"Content-Security-Policy", "x"}}};
           }},
          {"/livez",
           [] {
             return daemon::HttpReply{200, "text/plain", "ok\n"};
           }},
          {"/readyz",
           [] {
             return daemon::HttpReply{503, "text/plain", ""};
           }},
          {"/broken", []() -> daemon::HttpReply { throw std::runtime_error("broken"); }}};
}

struct Served {
  boost::asio::io_context io;
  daemon::HttpServer server{io, "127.0.0.1", 0, routes()};
};

Served& served() {
  static auto* const one = new Served;  // it stays until the process ends, and so do its connections
  return *one;
}

sockaddr_in address(std::uint32_t host, unsigned short port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(host);
  address.sin_port = htons(port);
  return address;
}

/// libFuzzer's clock interrupts: then the connection goes on being made.
bool is_connected(int fd, const sockaddr_in& to) {
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return true;
  if (errno != EINTR) return false;
  pollfd made{fd, POLLOUT, 0};
  while (::poll(&made, 1, -1) < 0 && errno == EINTR) continue;
  socklen_t size = sizeof errno;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &errno, &size) == 0 && errno == 0;
}

/// Each from another address, for the ports of one would be used up in a minute.
class Client {
 public:
  explicit Client(unsigned short port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    static std::uint32_t count = 0;
    const auto from = address(0x7f000002U + count++ % 0xffff00U, 0);
    const auto to = address(0x7f000001U, port);
    const bool connected =
        ::bind(fd_, reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0 && is_connected(fd_, to);
    fuzz::promise(connected, "a client comes in", connected ? "" : std::generic_category().message(errno));
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return;  // refused already, and closed
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  void is_done() const { ::shutdown(fd_, SHUT_WR); }

  /// False: nothing more will come.
  bool receive(std::string& answers) const {
    std::array<char, 16'384> part{};
    const auto got = ::recv(fd_, part.data(), part.size(), MSG_DONTWAIT);
    if (got > 0) answers.append(part.data(), static_cast<std::size_t>(got));
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  }

 private:
  const int fd_;
};

std::string answers_to(std::string_view request) {
  auto& [io, server] = served();
  const Client client(server.port());
  client.send(request.substr(0, request.size() / 2));
  io.poll();
  client.send(request.substr(request.size() / 2));
  client.is_done();
  std::string answers;
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  do {
    io.poll();
    fuzz::promise(std::chrono::steady_clock::now() < deadline, "a connection ends with its client", answers);
  } while (client.receive(answers));
  io.poll();
  return answers;
}

/// Takes one answer away; that to HEAD has a length and no body, and no body here begins as an answer does.
void take_answer(std::string_view& answers) {
  const std::string whole(answers);
  const auto head = answers.find("\r\n\r\n");
  fuzz::promise(head != std::string_view::npos && answers.starts_with("HTTP/1.") && answers.size() > 12,
                "an answer has a head", whole);
  const std::string lines(answers.substr(0, head + 2));
  static const std::set<std::string> known{"200", "400", "404", "405", "413",
                                           "417", "421", "431", "500", "503"};
  fuzz::promise(known.contains(lines.substr(9, 3)), "a status is one of ours", whole);
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  const auto length = lines.find(kLength);
  fuzz::promise(length != std::string::npos, "an answer has a length", whole);
  answers.remove_prefix(head + 4);
  if (answers.empty() || answers.starts_with("HTTP/1.")) return;
  const std::size_t bytes = std::stoul(lines.substr(length + kLength.size()));
  fuzz::promise(bytes <= answers.size(), "an answer is complete", whole);
  answers.remove_prefix(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string answers = answers_to(fuzz::text_of(data, size));
  for (std::string_view rest = answers; !rest.empty();) take_answer(rest);
  return 0;
}
