#pragma once

#include <vector>

#include "demo/simulation/books.hpp"
#include "faults/soak_meter.hpp"

namespace ff::faults {

/// What has to be as it was: the last third of the samples beside the first, after a warm-up that is the first tenth. Of
/// memory and descriptors those of the first replica, which nobody kills. At least ten samples.
std::vector<simulation::Verdict> compare_thirds(const std::vector<Sample>& samples);

/// The errors that were counted, without those that come of an ended session.
simulation::Verdict unexplained(const std::map<std::string, double>& errors);

}  // namespace ff::faults
