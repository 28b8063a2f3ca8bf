#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "faults/fault.hpp"
#include "faults/world.hpp"

namespace ff::faults {

/// Faults that one world goes through, one after the other, before it is audited.
struct Chapter {
  std::string name;
  WorldOptions world;
  std::vector<Fault> faults;
};

/// Prints as it goes. Throws nothing: what ends a chapter is its failure.
ChapterResult run(const Chapter& chapter, bool brief, std::uint64_t seed);

}  // namespace ff::faults
