#pragma once

#include <string>

#include "config/document.hpp"
#include "config/options.hpp"

namespace ff::config {

/// The value that `node` gives to `option`. Throws std::invalid_argument that says what is wrong with it, in
/// words that never repeat the value of a secret.
Value parse_value(const Option& option, const Node& node);

/// A value in the shortest YAML that parse_value reads back; empty when the option is not set.
std::string format_value(const Option& option, const Value& value);

}  // namespace ff::config
