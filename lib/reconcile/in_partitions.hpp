#pragma once

#include <string>
#include <string_view>

#include "base/partitions.hpp"

namespace ff::reconcile {

/// The condition that the row of this name is in one of these partitions, worded as a Statement needs it.
std::string in_partitions(std::string_view row, const Partitions& partitions);

}  // namespace ff::reconcile
