#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/config.hpp"

namespace ff::config {

/// A contradiction between options that are each fine by themselves.
struct Check {
  std::vector<std::string> keys;  ///< what takes part
  std::function<bool(const Config&)> contradicts;
  std::function<std::string(const Config&)> message;  ///< what is wrong and what is allowed
};

/// All of them, in one table.
std::vector<Check> checks(const std::vector<ReconcilerDecl>& decls);

}  // namespace ff::config
