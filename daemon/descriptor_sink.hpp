#pragma once

#include <spdlog/sinks/base_sink.h>

#include <cstdint>
#include <mutex>

namespace ff::daemon {

/// Writes lines to a descriptor, and gives them up where its reader does not: a pipe that nobody empties must not
/// stop the daemon. How many were lost is said once there is room again. Safe from any thread; the descriptor stays
/// the caller's.
class DescriptorSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit DescriptorSink(int descriptor) : descriptor_(descriptor) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}
  bool write(std::string_view text);

  const int descriptor_;
  std::int64_t lost_ = 0;  // lines, since one was written
};

}  // namespace ff::daemon
