#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.hpp"

namespace ff::config {

/// The effective configuration as YAML, defaults included and secrets hidden. load() reads it back to the
/// same configuration, apart from the secrets.
std::string print(const Config& config, const std::vector<ReconcilerDecl>& decls);

/// Tells configurations apart: a hash of what print() shows but for `partitions`, in which replicas differ on purpose.
/// The same in every process of the same version, and small enough (48 bits) for a double to hold it exactly.
std::uint64_t fingerprint(const Config& config, const std::vector<ReconcilerDecl>& decls);

/// A complete commented file in which every value is the default.
std::string print_default(const std::vector<ReconcilerDecl>& decls);

}  // namespace ff::config
