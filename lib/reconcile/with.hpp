#pragma once

#include <type_traits>
#include <vector>

namespace ff::reconcile {

/// The one list, and the other behind it.
template <typename Item>
std::vector<Item> with(std::vector<Item> all, const std::type_identity_t<std::vector<Item>>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace ff::reconcile
