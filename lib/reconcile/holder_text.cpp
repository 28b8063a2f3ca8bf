#include "reconcile/holder_text.hpp"

namespace ff::reconcile {

std::string text_of(const Holder& holder) {
  if (holder.pid == 0) return "the prepared transaction " + holder.application;
  std::string details = holder.application;
  if (!holder.state.empty()) details += (details.empty() ? "" : ", ") + holder.state;
  return "pid " + std::to_string(holder.pid) + (details.empty() ? "" : " (" + details + ")");
}

}  // namespace ff::reconcile
