#include "faults/real_workers.hpp"

#include <exception>

namespace ff::faults {
namespace {

constexpr int kWorkers = 2;
constexpr const char* kHeldLane = "really held";

}  // namespace

RealWorkers::RealWorkers(const RealWorkerOptions& options, std::uint64_t seed) : working_(kWorkers) {
  RealWorkerOptions each = options;
  each.seed = seed;
  each.lane = kHeldLane;
  holder_ = start(each, &RealWorker::hold);
  each.lane = kLane;
  for (int i = 0; i < kWorkers; ++i) {
    ++each.seed;
    workers_.push_back(start(each, &RealWorker::work));
  }
}

std::jthread RealWorkers::start(RealWorkerOptions options, Live live) {
  return std::jthread([this, live, options = std::move(options)](const std::stop_token& stop) {
    try {
      RealWorker worker(options, record_);
      (worker.*live)(stop);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      errors_.emplace_back(error.what());
    }
    if (options.lane == kLane) --working_;
  });
}

void RealWorkers::finish() {
  for (std::jthread& worker : workers_) worker.request_stop();
}

std::vector<std::string> RealWorkers::errors() const {
  const std::lock_guard lock(mutex_);
  return errors_;
}

}  // namespace ff::faults
