#include "pg/listener.hpp"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <random>
#include <system_error>

namespace ff::pg {
namespace {

struct FreeNotification {
  void operator()(PGnotify* notification) const { PQfreemem(notification); }
};

constexpr std::int64_t kLongestPoll = 60'000;  // milliseconds: a poll() of any length then fits an int

}  // namespace

void Listener::listen(const std::vector<std::string>& channels) {
  for (const std::string& channel : channels) connection_.execute("LISTEN " + channel);
}

std::set<std::string> Listener::wait(SteadyTime until, Wake& wake) {
  PGconn* const session = connection_.usable("LISTEN");
  // What came along with the answer to a statement lies in libpq's queue, and the socket does not show it.
  std::set<std::string> heard = take_notifications();
  const Interrupt* interrupt = connection_.interrupt_;
  while (heard.empty()) {
    const auto left = std::chrono::ceil<Milliseconds>(until - Clock::system().now()).count();
    if (left <= 0) return {};
    std::array<pollfd, 3> polled{pollfd{PQsocket(session), POLLIN, 0}, pollfd{wake.fd(), POLLIN, 0},
                                 pollfd{interrupt != nullptr ? interrupt->fd() : -1, POLLIN, 0}};
    const int ready =
        ::poll(polled.data(), polled.size(), static_cast<int>(std::min<std::int64_t>(left, kLongestPoll)));
    if (ready < 0 && errno != EINTR)
      throw Error(Error::Kind::connection, "poll: " + std::generic_category().message(errno));
    if (ready <= 0) continue;
    if (polled[2].revents != 0)
      throw Error(Error::Kind::interrupted, "interrupted while waiting for a notification");
    if (polled[0].revents != 0) {
      if (PQconsumeInput(session) == 0 || PQstatus(session) != CONNECTION_OK)
        connection_.fail(Error::Kind::connection, "LISTEN");
      heard = take_notifications();
    }
    if (polled[1].revents != 0 && wake.take()) break;
  }
  return heard;
}

// Over a channel that nobody else has, or somebody else's trial would be taken for this one.
bool Listener::hears(Connection& other, SteadyTime until, Wake& wake) {
  const std::string channel = "ff_trial_" + std::to_string(std::random_device{}());
  connection_.execute("LISTEN " + channel);
  other.execute("NOTIFY " + channel);
  bool heard = false;
  while (!heard && Clock::system().now() < until) heard = wait(until, wake).contains(channel);
  connection_.execute("UNLISTEN " + channel);
  return heard;
}

std::set<std::string> Listener::take_notifications() {
  std::set<std::string> heard;
  for (;;) {
    const std::unique_ptr<PGnotify, FreeNotification> one(PQnotifies(connection_.connection_.get()));
    if (!one) return heard;
    heard.insert(one->relname);
  }
}

}  // namespace ff::pg
