#include "descriptor_sink.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/time.hpp"

namespace ff::daemon {
namespace {

constexpr Milliseconds kPatienceWithReader{100};  // for a reader that is only slow

// A pipe has room for PIPE_BUF bytes when it is said to be writable; a file always is.
bool has_room(int descriptor, Milliseconds patience) {
  pollfd polled{descriptor, POLLOUT, 0};
  return ::poll(&polled, 1, static_cast<int>(patience.count())) > 0;
}

}  // namespace

void DescriptorSink::sink_it_(const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  formatter_->format(message, line);
  if (lost_ > 0 && has_room(descriptor_, Milliseconds{0})) {
    const std::string text = std::to_string(lost_) + " lines of the log were lost: nobody read them";
    spdlog::memory_buf_t told;
    formatter_->format({message.time, {}, {}, spdlog::level::warn, text}, told);
    if (write({told.data(), told.size()})) lost_ = 0;
  }
  if (lost_ > 0 || !write({line.data(), line.size()})) ++lost_;
}

// False: nobody reads. Part of the line may be written.
bool DescriptorSink::write(std::string_view text) {
  while (!text.empty()) {
    if (!has_room(descriptor_, kPatienceWithReader)) return false;
    const ssize_t written = ::write(descriptor_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace ff::daemon
