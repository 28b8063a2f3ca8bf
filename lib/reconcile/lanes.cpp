#include "reconcile/lanes.hpp"

namespace ff::reconcile {

Lanes& Lanes::none() {
  struct None final : Lanes {
    void run(std::size_t, const std::function<void()>& here, const std::function<void()>&) override {
      here();
    }
  };
  static None none;
  return none;
}

}  // namespace ff::reconcile
