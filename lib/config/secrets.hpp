#pragma once

#include <string>
#include <string_view>

namespace ff::config {

/// What stands in for a secret in every output.
inline constexpr std::string_view kHidden = "***";

/// A connection string that can be shown: a URL or a keyword string with each password replaced by `***` (userinfo,
/// `?password=`, `password=…` in any quoting, and whatever else is named like a password or a secret). Works on strings that
/// libpq would refuse as well, and there hides too much rather than too little. Of what it returns it hides nothing more.
std::string hide_secrets(std::string_view conninfo);

}  // namespace ff::config
