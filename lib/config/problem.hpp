#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ff::config {

/// How much of a text from outside a problem quotes, in bytes.
inline constexpr std::size_t kLongestQuoted = 120;

/// One thing that is wrong with a configuration. No member ever holds a secret.
struct Problem {
  std::string file;     ///< the file, "environment" or "command line"
  int line = 0;         ///< counted from 1; 0: there is none
  std::string key;      ///< such as `database.pool_size`; a variable or a flag goes by its own name
  std::string value;    ///< as it was written, or "(hidden)"; empty when there is none to show
  std::string message;  ///< what is wrong and what is allowed

  /// `file:line: key: "value": message`, without the parts that are missing; always one line.
  std::string text() const;
};

/// A configuration that cannot be used. what() has one line per problem.
class Invalid : public std::runtime_error {
 public:
  explicit Invalid(std::vector<Problem> problems);
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

}  // namespace ff::config
