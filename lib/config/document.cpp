#include "config/document.hpp"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/utf8.hpp"
#include "config/syntax_words.hpp"

namespace ff::config {
namespace {

/// Builds the tree from the parser's events, because yaml-cpp's own nodes lose duplicates, quotes and
/// anchors.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& file, std::vector<Problem>& problems) : file_(file), problems_(problems) {}

  Node take_root() { return std::move(root_); }
  int documents() const { return documents_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 2)
      refuse(mark, "a second document begins here (allowed: one; take the line --- away)");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(leaf(Node::Kind::null, mark)); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases (*name) are not allowed; write the value out, in quotes if it begins with *");
    add(leaf(Node::Kind::alias, mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    check_tag(mark, tag);
    Node node = leaf(Node::Kind::scalar, mark);
    node.text = value;
    node.quoted = tag == "!";
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open_.push_back(leaf(Node::Kind::sequence, mark));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open_.push_back(leaf(Node::Kind::mapping, mark));
  }
  void OnMapEnd() override { close(); }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override {
    refuse(mark,
           "anchors (&name) are not allowed; write the value out where it is needed, in quotes if it begins "
           "with &");
  }

 private:
  static Node leaf(Node::Kind kind, const YAML::Mark& mark) {
    Node node;
    node.kind = kind;
    node.line = mark.line + 1;
    return node;
  }

  void refuse(const YAML::Mark& mark, std::string message) {
    problems_.push_back({file_, mark.line + 1, {}, {}, std::move(message)});
  }

  /// yaml-cpp passes "?" for a plain node and "!" for a quoted one.
  void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag != "?" && tag != "!" && !tag.empty())
      refuse(mark, "tags (!name) are not allowed; a value that begins with ! has to be in quotes");
  }

  void close() {
    Node node = std::move(open_.back());
    open_.pop_back();
    add(std::move(node));
  }

  void add(Node node) {
    if (open_.empty()) {
      if (documents_ == 1) root_ = std::move(node);
      return;
    }
    Node& parent = open_.back();
    if (parent.kind == Node::Kind::mapping && parent.keys.size() == parent.items.size()) {
      parent.keys.push_back(std::move(node));
      return;
    }
    // The parser notices a missing value only at whatever comes next.
    if (parent.kind == Node::Kind::mapping && node.kind == Node::Kind::null)
      node.line = parent.keys.back().line;
    parent.items.push_back(std::move(node));
  }

  const std::string& file_;
  std::vector<Problem>& problems_;
  std::vector<Node> open_;
  Node root_;
  int documents_ = 0;
};

int line_of(const std::string& text, std::size_t offset) {
  return 1 +
         static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
}

bool readable_characters(const std::string& text, const std::string& file, std::vector<Problem>& problems) {
  if (const auto at = invalid_utf8_at(text)) {
    problems.push_back({file, line_of(text, *at), {}, {}, "not UTF-8 (allowed: UTF-8 only)"});
    return false;
  }
  if (const auto at = control_character_at(text, false)) {
    problems.push_back({file, line_of(text, *at), {}, {}, "a control character (allowed: printable text)"});
    return false;
  }
  return true;
}

// What yaml-cpp passes over in silence, or takes for a word.
bool readable_lines(const std::string& text, const std::string& file, std::vector<Problem>& problems) {
  const std::size_t before = problems.size();
  int number = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.starts_with('%') && !line.starts_with("%YAML ") && !line.starts_with("%TAG "))
      problems.push_back(
          {file, number, {}, {}, "a line that begins with % (take the % away; # begins a comment)"});
    const std::size_t blank = line.find_first_not_of(" \t");
    if (blank != std::string::npos && line.compare(blank, 2, "\xc2\xa0") == 0)
      problems.push_back({file, number, {}, {}, "a no-break space in the indentation (write plain spaces)"});
  }
  return problems.size() == before;
}

void blame_syntax(const std::string& text, const YAML::Exception& error, const std::string& file,
                  std::vector<Problem>& problems) {
  const int line = std::min(error.mark.line + 1, line_of(text, text.size()));
  if (dynamic_cast<const YAML::DeepRecursion*>(&error) != nullptr)
    return problems.push_back({file, line, {}, {}, "no valid YAML: nested too deeply"});
  // Behind a colon the parser repeats a piece of the file, and that may be a piece of a password.
  const std::string said = error.msg.substr(0, error.msg.find(':'));
  const SyntaxError its = in_plain_words(text, said, line, error.mark.column + 1);
  problems.push_back(
      {file, its.line, {}, {}, "no valid YAML: column " + std::to_string(its.column) + ": " + its.message});
}

}  // namespace

std::optional<Node> parse_document(const std::string& text, const std::string& file,
                                   std::vector<Problem>& problems) {
  if (!readable_characters(text, file, problems) || !readable_lines(text, file, problems))
    return std::nullopt;
  // yaml-cpp closes an open quote at the end of its input; an end-of-document mark makes it an error.
  std::istringstream input(text + "\n...\n");
  TreeBuilder builder(file, problems);
  try {
    YAML::Parser parser(input);
    // One too many is enough: at a stray comma yaml-cpp finds empty documents without end.
    while (builder.documents() < 2 && parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    blame_syntax(text, error, file, problems);
    return std::nullopt;
  }
  return builder.take_root();
}

}  // namespace ff::config
