#include "support/log_capture.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <mutex>

namespace ff::test {

class LogCapture::Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    lines_.push_back(fmt::format("{} {}", spdlog::level::to_string_view(message.level), message.payload));
  }
  void flush_() override {}

  std::vector<std::string> lines_;
};

LogCapture::LogCapture(spdlog::level::level_enum least)
    : sink_(std::make_shared<Sink>()), before_(spdlog::default_logger()) {
  auto logger = std::make_shared<spdlog::logger>("captured", sink_);
  logger->set_level(least);
  spdlog::set_default_logger(std::move(logger));
}

LogCapture::~LogCapture() {
  spdlog::set_default_logger(before_);
}

std::vector<std::string> LogCapture::lines() const {
  return sink_->lines();
}

}  // namespace ff::test
