#pragma once

#include <string>

namespace ff {

/// Of this machine, in a container the name of the pod; empty where the system has none to tell.
std::string host_name();

}  // namespace ff
