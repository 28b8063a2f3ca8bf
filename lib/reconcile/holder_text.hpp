#pragma once

#include <string>

#include "reconcile/holders.hpp"

namespace ff::reconcile {

/// "pid 4711 (psql, idle in transaction)", "the prepared transaction NAME".
std::string text_of(const Holder& holder);

}  // namespace ff::reconcile
