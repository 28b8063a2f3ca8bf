#pragma once

#include <functional>

namespace ff::bench {

/// What reading took.
struct Effort {
  double seconds = 0;
  double resident_mib = 0;  ///< by how much the process grew at its largest
};

/// Runs `work` in a copy of this process, so that its memory is nobody else's, and returns what it returned.
/// What `work` throws is thrown here as std::runtime_error. To be called while no other thread of this
/// process is doing anything: it would be missing in the copy, with whatever it held.
Effort in_own_process(const std::function<Effort()>& work);

/// How much of this process is in memory now, and the most that ever was. Both in MiB.
double resident_mib();
double most_resident_mib();

}  // namespace ff::bench
