#include "supervisor/random.hpp"

#include <random>

namespace ff::supervisor {

double random_share() {
  thread_local std::minstd_rand generator{std::random_device{}()};
  return std::uniform_real_distribution<double>{0.0, 1.0}(generator);
}

}  // namespace ff::supervisor
