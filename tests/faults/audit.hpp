#pragma once

#include <array>
#include <vector>

#include "faults/world.hpp"

namespace ff::faults {

/// Ends the load, waits until nothing is left that the daemons will move, ends them too, and asks whether all is as it
/// should be. After outages the workers do not know of every step whether it was committed: then their books are
/// compared as far as they know. `before`: what the replicas held before anything went wrong.
std::vector<simulation::Verdict> audit(World& world, bool after_outages,
                                       const std::array<Footprint, kReplicas>& before);

}  // namespace ff::faults
