#include "config/syntax_words.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace ff::config {
namespace {

constexpr auto kNone = std::string_view::npos;

struct Place {
  int line = 0;
  int column = 0;
};

struct Opened {
  char sign = 0;
  Place at;
};

/// What is open where a text ends, as far as it can be told without knowing what is wrong with it.
struct Open {
  std::optional<Opened> quote;
  std::vector<Opened> brackets;
  std::optional<Opened> long_quote;  ///< the last one that went over the end of a line
  Place long_quote_end;
};

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    at = end + 1;
  }
  return lines;
}

std::size_t indentation(std::string_view line) {
  return std::min(line.find_first_not_of(" \t"), line.size());
}

bool is_blank(std::string_view line) {
  const std::size_t begin = indentation(line);
  return begin == line.size() || line[begin] == '#';
}

/// Reads quotes, comments and brackets as YAML does.
class Reader {
 public:
  Open read(const std::vector<std::string_view>& lines) {
    for (std::size_t i = 0; i < lines.size(); ++i) read_line(lines[i], static_cast<int>(i) + 1);
    return open_;
  }

 private:
  void read_line(std::string_view line, int number) {
    char before = '\n';  // the last that was no blank
    bool blank = true;   // there is one, or the line's begin, in front of this
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      const Place here{number, static_cast<int>(i) + 1};
      if (open_.quote) {
        if (c == '\\' && open_.quote->sign == '"') ++i;
        if (c != open_.quote->sign) continue;
        if (c == '\'' && i + 1 < line.size() && line[i + 1] == '\'') {
          ++i;
          continue;
        }
        close_quote(here);
        before = c;
        blank = false;
        continue;
      }
      if (c == '#' && blank) return;
      const bool begins = before == '\n' || (blank && (before == ':' || before == '-')) || before == ',' ||
                          before == '[' || before == '{';
      if ((c == '"' || c == '\'') && begins)
        open_.quote = Opened{c, here};
      else if ((c == '[' || c == '{') && (begins || !open_.brackets.empty()))
        open_.brackets.push_back({c, here});
      else if ((c == ']' || c == '}') && !open_.brackets.empty())
        open_.brackets.pop_back();
      blank = c == ' ' || c == '\t';
      if (!blank) before = c;
    }
  }

  void close_quote(Place here) {
    if (open_.quote->at.line != here.line) {
      open_.long_quote = open_.quote;
      open_.long_quote_end = here;
    }
    open_.quote.reset();
  }

  Open open_;
};

/// The key that a line begins with: whether there is one, and whether something follows.
struct Shape {
  bool has_key = false;    ///< a colon and a blank, or the line's end, behind its first word
  bool has_value = false;  ///< in the same line
  bool glued = false;      ///< a colon, and no blank behind it
  bool equals = false;     ///< = instead of a colon
};

Shape shape_of(std::string_view line) {
  line = line.substr(indentation(line));
  const std::size_t end = line.find_first_of(" \t:=");
  const std::size_t sign = end == kNone ? kNone : line.find_first_not_of(" \t", end);
  Shape shape;
  if (sign == kNone) return shape;
  const std::size_t behind = line.find_first_not_of(" \t", sign + 1);
  const bool something = behind != kNone && line[behind] != '#';
  shape.equals = line[sign] == '=';
  if (line[sign] != ':') return shape;
  shape.has_key = sign + 1 == line.size() || line[sign + 1] == ' ' || line[sign + 1] == '\t';
  shape.glued = !shape.has_key;
  shape.has_value = shape.has_key && something;
  return shape;
}

class Diagnosis {
 public:
  Diagnosis(std::string_view text, std::string_view said, int line, int column)
      : lines_(lines_of(text)), said_(said), open_(Reader().read(lines_)) {
    const int last = static_cast<int>(lines_.size());
    error_.line = std::clamp(line, 1, last);
    error_.column = column;
  }

  SyntaxError make() {
    if (!tab() && !quote() && !bracket() && !sign() && !indented() && !key()) other();
    return error_;
  }

 private:
  std::string_view line(int number) const { return lines_.at(static_cast<std::size_t>(number) - 1); }
  bool says(std::string_view words) const { return said_.find(words) != kNone; }
  char noticed() const {
    const std::string_view its = line(error_.line);
    const auto at = static_cast<std::size_t>(std::max(error_.column, 1)) - 1;
    return at < its.size() ? its[at] : '\n';
  }

  bool blame(Place at, std::string message) {
    error_ = {at.line, at.column, std::move(message)};
    return true;
  }

  bool tab() {
    for (int number = 1; number <= error_.line; ++number) {
      const std::string_view its = line(number);
      const std::size_t at = its.substr(0, indentation(its)).find('\t');
      if (at != kNone && !is_blank(its))
        return blame({number, static_cast<int>(at) + 1}, "a tab in the indentation (write spaces instead)");
    }
    return false;
  }

  bool quote() {
    const auto name = [](const Opened& quote) {
      return std::string(quote.sign == '"' ? "the double quote" : "the single quote") + " that opens here";
    };
    if (open_.quote)
      return blame(open_.quote->at,
                   name(*open_.quote) + " is never closed (write another one behind the value)");
    if (open_.long_quote && open_.long_quote_end.line == error_.line)
      return blame(open_.long_quote->at, name(*open_.long_quote) + " is closed only in line " +
                                             std::to_string(error_.line) +
                                             " (write another one behind the value, in the same line)");
    if (says("unknown escape"))
      return blame(
          {error_.line, error_.column},
          "in double quotes a \\ begins an escape, and there is none such (write \\\\, or put the value in "
          "single quotes)");
    return false;
  }

  bool bracket() {
    if (says("illegal flow end"))
      return blame({error_.line, error_.column}, "this bracket closes nothing (take it away)");
    if (!says("flow not found")) return false;
    if (open_.brackets.empty())
      return blame(
          {error_.line, error_.column},
          "a comma or a closing bracket is missing in front of this (a value with [ ] { } , or a colon in "
          "it has to be in quotes)");
    const Opened& last = open_.brackets.back();
    return blame(last.at, std::string("the ") + last.sign + " that opens here is never closed (write " +
                              (last.sign == '[' ? "]" : "}") + " behind the last of what it holds)");
  }

  bool sign() {
    const bool of_star = says("alias not found") || says("anchor is not defined");
    if (of_star)
      return blame({error_.line, error_.column}, "a value that begins with * has to be in quotes: \"*...\"");
    if (says("block scalar"))
      return blame({error_.line, error_.column},
                   "behind | or > nothing else may stand in its line (write the value in quotes instead)");
    if (!says("unknown token") && !says("anchor not found") && !says("tag handle")) return false;
    const char c = noticed();
    if (c == '\t') return blame({error_.line, error_.column}, "a tab (write spaces instead)");
    if (c == '\n')
      return blame({error_.line, error_.column},
                   "a name is missing here (a value that begins with & * or ! has to be in quotes)");
    return blame({error_.line, error_.column},
                 std::string("a value that begins with ") + c + " has to be in quotes: \"" + c + "...\"");
  }

  /// The nearest line above that says something; 0: none.
  int above(int number) const {
    do {
      --number;
    } while (number > 0 && is_blank(line(number)));
    return number;
  }

  bool indented() {
    const std::string_view its = line(error_.line);
    const std::size_t begin = indentation(its);
    const int before = above(error_.line);
    const Place here{error_.line, static_cast<int>(begin) + 1};
    if (says("end of map not found") || says("end of sequence not found")) {
      if (error_.column > here.column)
        return blame(
            {error_.line, error_.column},
            "nothing may follow the closing quote or bracket of a value (put all of the value in quotes)");
      if (its.substr(begin).starts_with("- "))
        return blame(here, "an element of a list among keys (take the - away, or write key: [..., ...])");
      return blame(
          here, "the indentation fits no line above (begin it in the column of the keys that it belongs to" +
                    columns_above(begin) + ")");
    }
    if (before == 0 || begin <= indentation(line(before)) || !shape_of(line(before)).has_value) return false;
    return blame(here, "indented deeper than line " + std::to_string(before) +
                           ", whose key has a value already (begin both in the same column)");
  }

  // "; the keys above begin in columns 1 and 3"
  std::string columns_above(std::size_t without) const {
    std::vector<std::size_t> columns;
    for (int number = 1; number < error_.line; ++number)
      if (!is_blank(line(number)) && indentation(line(number)) != without)
        columns.push_back(indentation(line(number)) + 1);
    std::ranges::sort(columns);
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    if (columns.empty()) return "";
    std::string text =
        columns.size() == 1 ? "; those above begin in column " : "; those above begin in columns ";
    for (std::size_t i = 0; i < columns.size(); ++i)
      text += (i == 0 ? "" : i + 1 == columns.size() ? " or " : ", ") + std::to_string(columns[i]);
    return text;
  }

  bool key() {
    if (!says("illegal map value")) return false;
    // The parser took a line without a key for the begin of the next one's.
    for (const int number : {error_.line, above(error_.line)}) {
      if (number == 0) continue;
      const Shape shape = shape_of(line(number));
      const Place begin{number, static_cast<int>(indentation(line(number))) + 1};
      if (shape.glued) return blame(begin, "a space is missing behind the colon (write key: value)");
      if (shape.equals) return blame(begin, "= instead of a colon and a space (write key: value)");
      if (!shape.has_key && number != error_.line)
        return blame(begin, "a colon and a space are missing behind the key (write key: value)");
    }
    return blame({error_.line, error_.column},
                 "a second colon with a blank behind it (put a value that has one in quotes)");
  }

  void other() { error_.message = said_; }

  std::vector<std::string_view> lines_;
  std::string said_;
  Open open_;
  SyntaxError error_;
};

}  // namespace

SyntaxError in_plain_words(std::string_view text, std::string_view said, int line, int column) {
  return Diagnosis(text, said, line, column).make();
}

}  // namespace ff::config
