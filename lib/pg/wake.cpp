#include "pg/wake.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "pg/wait.hpp"

namespace ff::pg {

Wake::Wake() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Wake::~Wake() {
  ::close(fd_);
}

void Wake::raise() {
  const std::uint64_t one = 1;
  // Fails only when the counter is already at its maximum, and then the descriptor is readable anyway.
  [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof one);
}

bool Wake::take() {
  std::uint64_t count = 0;
  return ::read(fd_, &count, sizeof count) == static_cast<ssize_t>(sizeof count);
}

bool Wake::wait(SteadyTime until, const Interrupt* interrupt) {
  try {
    wait_for(fd_, false, until, interrupt, "something to do");
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::timeout) throw;
  }
  return take();
}

}  // namespace ff::pg
