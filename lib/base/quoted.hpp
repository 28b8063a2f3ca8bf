#pragma once

#include <string>
#include <string_view>

namespace ff {

/// Values from outside in lines that people paste. Whatever has to be escaped to be shown (base/printable.hpp) is escaped as the
/// reader of the line understands it, so that printable() leaves such a line as it is, and it names what was meant and
/// nothing else.

/// For SQL, whatever standard_conforming_strings is: '…', or E'…' where something is escaped.
std::string sql_literal(std::string_view value);

/// For a shell: '…', or $'…' where something is escaped (bash, zsh, POSIX since 2024).
std::string shell_word(std::string_view value);

}  // namespace ff
