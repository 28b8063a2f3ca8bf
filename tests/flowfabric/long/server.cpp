#include "long/server.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <system_error>

#include "http_server.hpp"

namespace ff::test {
namespace {

constexpr Milliseconds kHttpTime{5'000};
constexpr int kTries = 5;

// All that the README names: a day.
const Environment kSlow{{"FF_LEASE_EXPIRY_INTERVAL_MS", "86400000"},
                        {"FF_ATTEMPT_TIMEOUT_INTERVAL_S", "86400"},
                        {"FF_SUSPENSION_TIMEOUT_INTERVAL_S", "86400"},
                        {"FF_DEPENDENCY_RECONCILER_INTERVAL_S", "86400"},
                        {"FF_EDGE_CANCEL_DISPATCHER_INTERVAL_S", "86400"},
                        {"FF_EDGE_CANCEL_RECONCILER_INTERVAL_S", "86400"},
                        {"FF_BUDGET_RESET_INTERVAL_S", "86400"}};

// It takes the port that it is told, and never tells which it got for 0: so one that is free now.
unsigned short free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const int error = errno;
  ::close(fd);
  if (!bound) throw std::system_error(error, std::generic_category(), "bind");
  return ntohs(address.sin_port);
}

}  // namespace

OwnServer::OwnServer(const std::filesystem::path& program, const std::string& url) {
  for (int i = 0; i < kTries; ++i) {
    port_ = free_port();
    Environment environment = kSlow;
    environment["FF_BACKEND"] = "postgres";
    environment["FF_POSTGRES_URL"] = url;
    environment["FF_LISTEN_ADDR"] = "127.0.0.1:" + std::to_string(port_);
    environment["FF_WAITPOINT_HMAC_SECRET"] = std::string(64, '5');
    process_ = std::make_unique<Process>(std::vector<std::string>{program.string()}, environment);
    wait_until([&] { return healthy() || !process_->running(); });
    if (healthy()) return;
    if (process_->running() || log().find("failed to bind") == std::string::npos) break;
  }
  throw std::runtime_error("FlowFabric's server does not become ready: " + log());
}

bool OwnServer::healthy() {
  if (!process_->running()) return false;
  try {
    return daemon::http_get_status("127.0.0.1", port_, "/healthz", kHttpTime) == 200;
  } catch (const std::runtime_error&) {
    return false;  // it does not listen yet
  }
}

std::optional<int> OwnServer::stop() {
  process_->signal(SIGTERM);
  return process_->wait();
}

std::string OwnServer::log() const {
  return process_->out() + process_->err();
}

}  // namespace ff::test
