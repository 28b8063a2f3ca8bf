#pragma once

#include <atomic>

#include "reconcile/fork_join.hpp"

namespace ff::supervisor {

/// Lends threads to the ticks that have a lot to do: never more at a time than it has, to however many ticks.
/// A thread lives as long as it is lent. Safe from any thread.
class ThreadForkJoin final : public reconcile::ForkJoin {
 public:
  explicit ThreadForkJoin(int threads) : idle_(threads) {}

  void run(std::size_t more, const std::function<void()>& here, const std::function<void()>& beside) override;

 private:
  bool take_one();

  std::atomic<int> idle_;
};

}  // namespace ff::supervisor
