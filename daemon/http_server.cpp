#include "http_server.hpp"

#include <spdlog/spdlog.h>

#include <utility>
// Asio 1.74 relies on <utility> where coroutines are on, and does not include it.
#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <exception>
#include <list>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "authority.hpp"
#include "kept_replies.hpp"
#include "request_target.hpp"

#ifndef __clang__
// GCC 12 takes Asio's pair of operators for coroutine frames for a mismatch once it has inlined one of them.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

namespace ff::daemon {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

using Parser = http::request_parser<http::string_body>;
using Response = http::response<http::string_body>;

constexpr const char* kPlainText = "text/plain; charset=utf-8";
constexpr Milliseconds kAcceptRetry{500};
// After a last reply: how long and how much is still read of a client that is not done sending.
constexpr Milliseconds kLinger{1'000};
constexpr std::size_t kLingerBytes = 262'144;
// A status with a hundred rows in quarantine of each pair of statements, and what their triggers said.
constexpr std::size_t kMostOfAnAnswer = 8'388'608;

auto catching(error_code& error) {
  return asio::redirect_error(asio::use_awaitable, error);
}

tcp::endpoint resolve(const std::string& host, unsigned short port) {
  error_code error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) throw std::runtime_error("not an IPv4 or IPv6 address, nor localhost");
  return {address, port};
}

tcp::acceptor listen(asio::io_context& io, const std::string& host, unsigned short port) {
  try {
    return tcp::acceptor(io, resolve(host, port), /*reuse_addr=*/true);
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error("cannot listen on " + authority(host, port) + ": " + error.code().message());
  } catch (const std::runtime_error& error) {
    throw std::runtime_error("cannot listen on " + authority(host, port) + ": " + error.what());
  }
}

Response text_response(http::status status, std::string text) {
  Response response(status, 11);
  response.set(http::field::content_type, kPlainText);
  response.content_length(text.size());
  response.body() = std::move(text);
  return response;
}

// Also of an IPv4 address in IPv6's clothes, which Asio's own does not know.
bool is_loopback(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  return address.is_loopback();
}

// What is said to a request that cannot be read to its end; nothing where nobody is left to hear it.
std::optional<Response> refusal(error_code error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return text_response(http::status::request_header_fields_too_large, "request header too large\n");
  if (error == http::error::body_limit)
    return text_response(http::status::payload_too_large, "request body too large\n");
  if (error == http::error::end_of_stream ||
      error.category() != make_error_code(http::error::bad_value).category())
    return std::nullopt;
  return text_response(http::status::bad_request, "malformed request\n");
}

RequestTarget target_of(const Parser::value_type& request) {
  const auto host = request[http::field::host];
  return daemon::target_of({request.target().data(), request.target().size()},
                           request.count(http::field::host) == 0
                               ? std::nullopt
                               : std::optional(std::string_view{host.data(), host.size()}));
}

void log_failure(const std::exception_ptr& failure) {
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    spdlog::error("HTTP: a connection was given up: {}", error.what());
  }
}

/// Closing with unread input makes the kernel reset the connection, and the client may then never see the
/// reply: so say first that nothing more is sent, and read on for a moment.
asio::awaitable<void> close_gently(beast::tcp_stream& stream) {
  error_code error;
  stream.socket().shutdown(tcp::socket::shutdown_send, error);
  stream.expires_after(kLinger);
  std::array<char, 4096> ignored{};
  for (std::size_t total = 0; !error && total < kLingerBytes;)
    total += co_await stream.async_read_some(asio::buffer(ignored), catching(error));
}

/// Reads one request, within the limits; an error is the parser's or the connection's. A body is left unread
/// where the client waits to be asked for it.
asio::awaitable<error_code> read_request(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                                         Parser& parser) {
  error_code error;
  co_await http::async_read_header(stream, buffer, parser, catching(error));
  if (!error && !parser.is_done() && parser.get().count(http::field::expect) == 0)
    co_await http::async_read(stream, buffer, parser, catching(error));
  co_return error;
}

}  // namespace

/// The server's state, and what runs on it: one coroutine that accepts, and one for each connection.
struct HttpServer::Impl {
  /// An open connection; it has its place among the others from the moment it is accepted.
  struct Connection {
    Connection(std::shared_ptr<Impl> of, tcp::socket socket)
        : server(std::move(of)),
          stream(std::move(socket)),
          place(server->connections.insert(server->connections.end(), this)) {}
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() { server->connections.erase(place); }
    /// Has been answered, and is now the one that has waited least.
    void answered() { server->connections.splice(server->connections.end(), server->connections, place); }
    const std::shared_ptr<Impl> server;
    beast::tcp_stream stream;
    const std::list<Connection*>::iterator place;
  };

  Impl(asio::io_context& io, const std::string& host, unsigned short port, Routes routes_,
       const HttpLimits& limits_, std::function<void()> on_displaced_, const Clock& clock)
      : acceptor(listen(io, host, port)),
        pause(io),
        routes(std::move(routes_)),
        limits(limits_),
        on_displaced(std::move(on_displaced_)),
        replies(clock),
        bound_port(acceptor.local_endpoint().port()),
        on_loopback(is_loopback(acceptor.local_endpoint().address())) {}

  static asio::awaitable<void> accept_all(std::shared_ptr<Impl> self);
  static asio::awaitable<void> serve(std::unique_ptr<Connection> connection);
  void make_place();

  Response answer(const Parser::value_type& request);
  Response answer_path(std::string_view target);

  tcp::acceptor acceptor;
  asio::steady_timer pause;  // before accepting is tried again
  const Routes routes;
  const HttpLimits limits;
  const std::function<void()> on_displaced;
  KeptReplies replies;
  const unsigned short bound_port;
  const bool on_loopback;
  std::list<Connection*> connections;  // who has waited longest for an answer stands first
  bool told_of_displaced = false;
  bool stopped = false;
};

asio::awaitable<void> HttpServer::Impl::accept_all(std::shared_ptr<Impl> self) {
  bool failing = false;
  while (!self->stopped) {
    error_code error;
    auto socket = co_await self->acceptor.async_accept(catching(error));
    if (self->stopped) break;
    if (!error) {
      failing = false;
      self->make_place();
      asio::co_spawn(self->acceptor.get_executor(),
                     serve(std::make_unique<Connection>(self, std::move(socket))), log_failure);
    } else if (error != asio::error::connection_aborted) {
      // Most likely no descriptor is free; the queue stays as it is, so an immediate retry would spin.
      if (!failing) spdlog::error("HTTP: cannot accept connections: {}", error.message());
      failing = true;
      self->pause.expires_after(kAcceptRetry);
      error_code interrupted;
      co_await self->pause.async_wait(catching(interrupted));
    }
  }
}

// Whoever comes is let in, or a probe would wait behind clients that never say a word. One that is closed
// ends by itself a moment later.
void HttpServer::Impl::make_place() {
  const auto open = [](const Connection* connection) { return connection->stream.socket().is_open(); };
  if (static_cast<std::size_t>(std::ranges::count_if(connections, open)) < limits.connections) return;
  (*std::ranges::find_if(connections, open))->stream.close();
  if (on_displaced) on_displaced();
  if (!std::exchange(told_of_displaced, true))
    spdlog::warn(
        "HTTP: all {} places are taken; the connection that has waited longest for an answer is closed",
        limits.connections);
}

asio::awaitable<void> HttpServer::Impl::serve(std::unique_ptr<Connection> connection) {
  auto& server = *connection->server;
  auto& stream = connection->stream;
  beast::flat_buffer buffer(server.limits.header_bytes + server.limits.body_bytes);
  for (bool keep_alive = true; keep_alive;) {
    Parser parser;
    parser.header_limit(static_cast<std::uint32_t>(server.limits.header_bytes));
    parser.body_limit(server.limits.body_bytes);
    stream.expires_after(server.limits.idle);
    auto error = co_await read_request(stream, buffer, parser);
    auto refused = error ? refusal(error) : std::nullopt;
    if (error && !refused) break;
    Response response = refused ? std::move(*refused) : server.answer(parser.get());
    // A body that was announced and not read would be taken for the next request.
    keep_alive = !error && parser.is_done() && parser.get().keep_alive() && !server.stopped;
    response.keep_alive(keep_alive);
    stream.expires_after(server.limits.idle);
    co_await http::async_write(stream, response, catching(error));
    if (error) co_return;
    connection->answered();
  }
  co_await close_gently(stream);
}

Response HttpServer::Impl::answer(const Parser::value_type& request) {
  const auto method = request.method();
  const RequestTarget target = target_of(request);
  Response response;
  if (request.count(http::field::expect) != 0) {
    response = text_response(http::status::expectation_failed, "no expectations are met here\n");
  } else if (on_loopback && target.host && !is_address(*target.host)) {
    response = text_response(http::status::misdirected_request, "Host: an address, or localhost\n");
  } else if (method != http::verb::get && method != http::verb::head) {
    response = text_response(http::status::method_not_allowed, "GET and HEAD only\n");
    response.set(http::field::allow, "GET, HEAD");
  } else {
    response = answer_path(target.path);
  }
  response.version(request.version());
  if (method == http::verb::head) response.body().clear();
  return response;
}

Response HttpServer::Impl::answer_path(std::string_view target) {
  const auto route = routes.find(target.substr(0, target.find('?')));
  if (route == routes.end()) return text_response(http::status::not_found, "no such path\n");
  try {
    auto reply = replies.of(*route);
    Response response = text_response(http::status::ok, std::move(reply.body));
    response.result(static_cast<unsigned>(reply.status));
    response.set(http::field::content_type, reply.content_type);
    for (const auto& [field, value] : reply.headers) response.set(field, value);
    return response;
  } catch (const std::exception& error) {
    spdlog::error("HTTP: {} failed: {}", route->first, error.what());
    return text_response(http::status::internal_server_error, "internal error\n");
  }
}

HttpServer::HttpServer(asio::io_context& io, const std::string& host, unsigned short port, Routes routes,
                       const HttpLimits& limits, std::function<void()> on_displaced, const Clock& clock)
    : impl_(
          std::make_shared<Impl>(io, host, port, std::move(routes), limits, std::move(on_displaced), clock)) {
  asio::co_spawn(io, Impl::accept_all(impl_), [](const std::exception_ptr& failure) {
    if (failure) std::rethrow_exception(failure);
  });
}

HttpServer::~HttpServer() {
  stop();
}

unsigned short HttpServer::port() const {
  return impl_->bound_port;
}

void HttpServer::stop() {
  impl_->stopped = true;
  error_code ignored;  // a socket that cannot be closed is not open
  impl_->acceptor.close(ignored);
  impl_->pause.cancel();
  for (auto* connection : impl_->connections) connection->stream.close();
}

namespace {

using Endpoints = std::vector<tcp::endpoint>;

struct LookUp {
  asio::io_context io;
  tcp::resolver resolver{io};
  bool is_over = false;
  error_code error;
  Endpoints found;
};

// Asio has the system's resolver asked on a thread that nobody can interrupt, and its io_context waits for that thread when it
// is destroyed: one that takes too long is left to itself.
Endpoints look_up(const std::string& name, unsigned short port, Milliseconds timeout) {
  auto its = std::make_unique<LookUp>();
  its->resolver.async_resolve(name, std::to_string(port), tcp::resolver::numeric_service,
                              [&its = *its](error_code error, const tcp::resolver::results_type& found) {
                                its.is_over = true;
                                its.error = error;
                                its.found.assign(found.begin(), found.end());
                              });
  its->io.run_for(timeout);
  if (its->is_over && its->error) throw std::runtime_error(name + ": " + its->error.message());
  if (its->is_over) return std::move(its->found);
  static_cast<void>(its.release());
  throw std::runtime_error("nobody has said in time which address " + name + " has");
}

Endpoints endpoints_of(const std::string& host, unsigned short port, Milliseconds timeout) {
  error_code error;
  asio::ip::make_address(host, error);
  return !error || host == "localhost" ? Endpoints{resolve(host, port)} : look_up(host, port, timeout);
}

asio::awaitable<void> get(const Endpoints& endpoints, const http::request<http::empty_body>& request,
                          SteadyTime deadline, http::response_parser<http::string_body>& answer) {
  beast::tcp_stream stream(co_await asio::this_coro::executor);
  stream.expires_at(deadline);
  co_await stream.async_connect(endpoints, asio::use_awaitable);
  co_await http::async_write(stream, request, asio::use_awaitable);
  beast::flat_buffer buffer;
  answer.body_limit(kMostOfAnAnswer);
  // Apart, because Beast 1.74 loses the error of a too large Content-Length when it reads on at once.
  co_await http::async_read_header(stream, buffer, answer, asio::use_awaitable);
  co_await http::async_read(stream, buffer, answer, asio::use_awaitable);
}

}  // namespace

int http_get_status(const std::string& host, unsigned short port, const std::string& path,
                    Milliseconds timeout, std::string* body) {
  const auto where = authority(host, port);
  try {
    http::request<http::empty_body> request(http::verb::get, path, 11);
    request.set(http::field::host, where);
    request.keep_alive(false);
    http::response_parser<http::string_body> answer;
    const SteadyTime deadline = Clock::system().now() + timeout;
    const Endpoints endpoints = endpoints_of(host, port, timeout);
    asio::io_context io;
    std::exception_ptr failure;
    asio::co_spawn(io, get(endpoints, request, deadline, answer),
                   [&failure](std::exception_ptr error) { failure = std::move(error); });
    io.run();
    if (failure) std::rethrow_exception(failure);
    if (body != nullptr) *body = std::move(answer.get().body());
    return static_cast<int>(answer.get().result_int());
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error("no answer from http://" + where + path + ": " + error.code().message());
  } catch (const std::runtime_error& error) {
    throw std::runtime_error("no answer from http://" + where + path + ": " + error.what());
  }
}

std::string reachable(const std::string& host) {
  if (host == "0.0.0.0") return "127.0.0.1";
  if (host == "::") return "::1";
  return host;
}

}  // namespace ff::daemon
