#pragma once

#include "config/config.hpp"

namespace ff::daemon {

/// Takes as many file descriptors as the process can be given, and warns in the log where this daemon may need more: a
/// session that gets none is taken for a database that is away.
void raise_descriptor_limit(const config::Config& config);

}  // namespace ff::daemon
