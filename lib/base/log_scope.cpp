#include "base/log_scope.hpp"

#include <atomic>

namespace ff {
namespace {

thread_local std::uint64_t current_id = 0;

}  // namespace

LogScope::LogScope(std::uint64_t id) {
  current_id = id;
}
LogScope::~LogScope() {
  current_id = 0;
}

std::uint64_t LogScope::current() {
  return current_id;
}

std::uint64_t next_log_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace ff
