#include "pg/interrupt.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace ff::pg {

Interrupt::Interrupt() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Interrupt::~Interrupt() {
  ::close(fd_);
}

void Interrupt::raise() {
  raised_ = true;
  const std::uint64_t one = 1;
  // Fails only when the counter is already at its maximum, and then the descriptor is readable anyway.
  [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof one);
}

}  // namespace ff::pg
