#include "pg/wait.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "pg/error.hpp"

namespace ff::pg {

void wait_for(int fd, bool for_write, SteadyTime deadline, const Interrupt* interrupt, std::string_view what,
              const Interrupt* abandoned) {
  const auto raised = [](const Interrupt* it) { return pollfd{it != nullptr ? it->fd() : -1, POLLIN, 0}; };
  std::array<pollfd, 3> polled{pollfd{fd, static_cast<short>(for_write ? POLLOUT | POLLIN : POLLIN), 0},
                               raised(interrupt), raised(abandoned)};
  for (;;) {
    const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::system().now()).count();
    if (left <= 0)
      throw Error(Error::Kind::timeout, "no answer in time while waiting for " + std::string(what));
    const int ready =
        ::poll(polled.data(), polled.size(), static_cast<int>(std::min<std::int64_t>(left, 60'000)));
    if (ready < 0 && errno != EINTR)
      throw Error(Error::Kind::connection, "poll: " + std::generic_category().message(errno));
    if (polled[1].revents != 0)
      throw Error(Error::Kind::interrupted, "interrupted while waiting for " + std::string(what));
    if (ready > 0 && polled[0].revents != 0) return;
    if (polled[2].revents != 0)
      throw Error(Error::Kind::connection,
                  std::string(kAbandoned) + "no longer waited for " + std::string(what));
  }
}

}  // namespace ff::pg
