#pragma once

#include <string>

#include "pg/connect.hpp"

namespace ff::bench {

/// On what the figures were measured.
struct Machine {
  unsigned processors = 0;
  std::string processor;  ///< its model; empty where the kernel does not say
  double memory_gib = 0;
  std::string kernel;
  std::string postgresql;  ///< its version
  std::string settings;    ///< the server's, those that matter here: "fsync on, shared_buffers 1GB, …"
};

/// With the server that the connector leads to.
Machine this_machine(const pg::Connector& connector);

}  // namespace ff::bench
