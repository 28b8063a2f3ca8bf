#include "supervisor/thread_fork_join.hpp"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/log_scope.hpp"

namespace ff::supervisor {

bool ThreadForkJoin::take_one() {
  for (int idle = idle_; idle > 0;)
    if (idle_.compare_exchange_weak(idle, idle - 1)) return true;
  return false;
}

void ThreadForkJoin::run(std::size_t more, const std::function<void()>& here,
                         const std::function<void()>& beside) {
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto guarded = [&](const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  {
    int lent = 0;
    while (more-- > 0 && take_one()) ++lent;
    std::vector<std::jthread> threads;
    for (; lent > 0; --lent) {
      try {
        threads.emplace_back([&, log_id = LogScope::current()] {
          const LogScope scope(log_id);
          guarded(beside);
          ++idle_;
        });
      } catch (const std::exception&) {  // the system has no further thread to give: then it goes without
        idle_ += lent;
        break;
      }
    }
    guarded(here);
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace ff::supervisor
