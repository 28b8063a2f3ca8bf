#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ff {

/// The word that was probably meant: the one of `words` with the fewest inserted, removed or changed
/// characters, or empty when none is close.
std::string nearest(std::string_view misspelled, const std::vector<std::string>& words);

}  // namespace ff
