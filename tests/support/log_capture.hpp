#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <string>
#include <vector>

namespace ff::test {

/// Keeps what is logged while it lives, instead of printing it. Those of one thread may be nested.
class LogCapture {
 public:
  /// Messages below this level are left out.
  explicit LogCapture(spdlog::level::level_enum least = spdlog::level::info);
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  /// One for each message so far: its level and its text, as in "error too slow". Safe from any thread.
  std::vector<std::string> lines() const;

 private:
  class Sink;
  const std::shared_ptr<Sink> sink_;
  const std::shared_ptr<spdlog::logger> before_;
};

}  // namespace ff::test
