#include "bench/regime.hpp"

#include "bench/compare.hpp"

namespace ff::bench {

double Way::median() const {
  return bench::median(rounds);
}

}  // namespace ff::bench
