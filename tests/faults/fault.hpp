#pragma once

#include <functional>
#include <string>

#include "base/time.hpp"

namespace ff::faults {

class World;

/// Puts an end to a fault.
using Heal = std::function<void()>;

/// Something that goes wrong, and how fast all has to be well again afterwards.
struct Fault {
  std::string name;
  std::string what;  ///< for people
  int repetitions = 1;
  int in_short = 0;  ///< the same in the short form; 0: it is not part of it
  /// From its end to the first good tick of every replica.
  Milliseconds wanted;
  /// Returns when the fault has lasted as long as it should. What it finds wrong, it tells the world.
  std::function<Heal(World&)> inject;
  /// What is to be done before the next one, once all replicas are well again.
  std::function<void(World&)> afterwards = {};
};

}  // namespace ff::faults
