#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace ff::config {

/// The effective configuration as YAML, defaults included and secrets hidden. load() reads it back to the
/// same configuration, apart from the secrets.
std::string print(const Config& config, const std::vector<ReconcilerDecl>& decls);

/// A complete commented file in which every value is the default.
std::string print_default(const std::vector<ReconcilerDecl>& decls);

}  // namespace ff::config
