#pragma once

#include "config/config.hpp"

namespace ff::daemon {

/// Takes as many file descriptors as this daemon may need, and warns in the log where the process cannot be given so many: a
/// session that gets none is taken for a database that is away.
void raise_descriptor_limit(const config::Config& config);

}  // namespace ff::daemon
