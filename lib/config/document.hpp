#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/problem.hpp"

namespace ff::config {

/// A piece of YAML as it was written. Nothing is converted and nothing is merged, so that what reads it sees
/// every duplicate key and the exact spelling of every number.
struct Node {
  enum class Kind { null, scalar, sequence, mapping, alias };

  Kind kind = Kind::null;
  int line = 0;             ///< counted from 1; 0: not from a file
  std::string text;         ///< of a scalar
  bool quoted = false;      ///< a scalar in quotes or a block
  std::vector<Node> keys;   ///< of a mapping, in the file's order; keys[i] belongs to items[i]
  std::vector<Node> items;  ///< of a sequence or a mapping
};

/// Reads one YAML document; an empty one is null. Adds to `problems`, each under the name `file`: text that
/// is not UTF-8, control characters, syntax errors, nesting without end, more than one document, anchors,
/// aliases and tags. Nothing when the text could not be read to its end.
std::optional<Node> parse_document(const std::string& text, const std::string& file,
                                   std::vector<Problem>& problems);

}  // namespace ff::config
