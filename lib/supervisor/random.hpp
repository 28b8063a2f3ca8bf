#pragma once

namespace ff::supervisor {

/// A random number from 0 to 1, for jitter. Safe from any thread.
double random_share();

}  // namespace ff::supervisor
