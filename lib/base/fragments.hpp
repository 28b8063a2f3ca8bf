#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ff {

/// A text that others contain, and its name: "clock", or with parameters "core_by(row, column)".
struct Fragment {
  std::string_view signature;
  std::string text;
};

/// Fills in the placeholders of a text. `{name}`, or `{name:argument, argument}`, stands for the fragment of that
/// name, whose text may hold placeholders again, its parameters among them; the last argument takes all that is left,
/// commas and placeholders included. A brace that no letter follows is just a brace: '{}', '[0-9]{8}'.
class Fragments {
 public:
  /// Throws std::invalid_argument where there is one of that name.
  Fragments& add(const Fragment& fragment);
  Fragments& add(const std::vector<Fragment>& fragments);

  /// Throws std::invalid_argument for a placeholder that is malformed, unknown or has too few arguments, and for a
  /// fragment within itself. One whose text is its own placeholder is left for somebody else to fill in.
  std::string expand(std::string_view text) const;

 private:
  struct Parsed {
    std::vector<std::string> parameters;
    std::string text;
  };
  using Arguments = std::map<std::string, std::string, std::less<>>;

  std::string expand(std::string_view text, const Arguments& arguments, int depth) const;
  std::string filled_in(std::string_view placeholder, const Arguments& arguments, int depth) const;
  std::string known(const Arguments& arguments) const;

  std::map<std::string, Parsed, std::less<>> fragments_;
};

}  // namespace ff
