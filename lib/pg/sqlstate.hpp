#pragma once

#include <string>
#include <string_view>

namespace ff::pg {

/// PostgreSQL's name of a condition that somebody who runs this daemon may meet ("insufficient_privilege"), as its
/// documentation has it in appendix A; empty for any other.
std::string_view condition_name(std::string_view sqlstate);

/// "42501 insufficient_privilege", or the code alone.
std::string named_sqlstate(const std::string& sqlstate);

}  // namespace ff::pg
