#pragma once

#include <string>
#include <string_view>

namespace ff::config {

/// What is wrong with a text that is no YAML, and what to write instead.
struct SyntaxError {
  int line = 0;    ///< counted from 1
  int column = 0;  ///< likewise
  std::string message;
};

/// Puts what yaml-cpp says of a text, where it noticed, into words of the one who wrote the text, at the place where the
/// mistake is: an open quote is noticed at the end of the file only. Never repeats a piece of the text, which may be of a
/// password.
SyntaxError in_plain_words(std::string_view text, std::string_view said, int line, int column);

}  // namespace ff::config
