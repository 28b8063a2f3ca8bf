#include "support/http_exchange.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>
#include <cerrno>
#include <stdexcept>
#include <utility>

namespace ff::test {

using daemon::HttpReply;

daemon::Routes some_routes() {
  return {{"/livez",
           [] {
             return HttpReply{200, "text/plain; charset=utf-8", "alive\n"};
           }},
          {"/readyz",
           [] {
             return HttpReply{503, "application/json", R"({"ready":false})"};
           }},
          {"/large",
           [] {
             return HttpReply{200, "text/plain", std::string(16'000'000, 'x')};
           }},
          {"/broken", []() -> HttpReply { throw std::runtime_error("out of luck"); }},
          {"/odd", [] {
             return HttpReply{12345, "text/plain", ""};
           }}};
}

RunningServer::RunningServer(const daemon::HttpLimits& limits, std::function<void()> on_displaced,
                             const daemon::Routes& routes, const std::string& host, const Clock& clock)
    : server_(io_, host, 0, routes, limits, std::move(on_displaced), clock), thread_([this] { io_.run(); }) {}

bool RunningServer::alive() const {
  return daemon::http_get_status("127.0.0.1", port(), "/livez", std::chrono::seconds{60}) == 200;
}

void RunningServer::stop() {
  if (!thread_.joinable()) return;
  boost::asio::post(io_, [this] { server_.stop(); });
  thread_.join();
}

Client::Client(unsigned short port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience{10, 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  REQUIRE(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
}

void Client::send(const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const auto n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<std::size_t>(n);
  }
}

void Client::send_no_more() {
  shutdown(fd_, SHUT_WR);
}

void Client::end() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void Client::reset() {
  const linger at_once{1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  end();
}

bool Client::hears_within(std::chrono::milliseconds time) {
  pollfd wanted{fd_, POLLIN, 0};
  return poll(&wanted, 1, static_cast<int>(time.count())) > 0;
}

std::string Client::rest() {
  while (receive()) {
  }
  return timed_out_ ? "timed out" : std::exchange(received_, "");
}

std::string Client::reply(bool with_body) {
  std::size_t end = 0;
  while ((end = received_.find("\r\n\r\n")) == std::string::npos)
    if (!receive()) return "no reply: " + received_;
  const auto length = received_.find("Content-Length: ");
  std::size_t size = end + 4;
  if (with_body && length < end) size += std::stoul(received_.substr(length + 16));
  while (received_.size() < size)
    if (!receive()) return "cut short: " + received_;
  const auto one = received_.substr(0, size);
  received_.erase(0, size);
  return one;
}

std::string Client::ask(const std::string& request) {
  send(request);
  return reply();
}

bool Client::receive() {
  char part[65536];
  const auto n = recv(fd_, part, sizeof part, 0);
  if (n < 0) timed_out_ = errno == EAGAIN;
  if (n > 0) received_.append(part, static_cast<std::size_t>(n));
  return n > 0;
}

std::string get(const std::string& target, const std::string& more) {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n";
}

int status_of(const std::string& reply) {
  return reply.starts_with("HTTP/1.1 ") ? std::stoi(reply.substr(9, 3)) : 0;
}

}  // namespace ff::test
