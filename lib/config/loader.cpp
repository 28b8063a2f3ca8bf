#include "config/loader.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/nearest.hpp"
#include "base/small_file.hpp"
#include "config/checks.hpp"
#include "config/secrets.hpp"
#include "config/value.hpp"

namespace ff::config {
namespace {

using Kind = Node::Kind;

constexpr int kFromFile = 1;
constexpr std::size_t kMostProblems = 1000;  // a file that is no configuration at all has one per line
constexpr std::string_view kHiddenValue = "(hidden)";

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

bool is_below(std::string_view path, std::string_view section) {
  if (section.empty()) return true;
  return path.size() > section.size() && path.starts_with(section) && path[section.size()] == '.';
}

std::string below(const std::string& section, const std::string& key) {
  return section.empty() ? key : section + '.' + key;
}

// As it is read for a connection: a line break at its end is no part of the password.
bool has_no_password(const std::string& path) {
  try {
    const std::string text = read_small_file(path);
    return text.empty() || text == "\n" || text == "\r\n";
  } catch (const std::runtime_error&) {
    return false;  // it cannot be read as yet
  }
}

}  // namespace

Loader::Loader(const std::vector<ReconcilerDecl>& decls)
    : decls_(decls), options_(options(decls)), config_(defaults(decls)) {}

// Its name may be a connection string that was typed into the wrong place.
void Loader::read_file(const std::string& path) {
  const std::string shown = hide_secrets(path);
  try {
    read_document(read_small_file(path), shown);
  } catch (const std::runtime_error& error) {
    file_was_read_ = false;
    blame({kFromFile, shown, 0, {}}, {},
          error.what() + std::string(" (allowed: a readable file of at most 1 MiB)"));
  }
}

void Loader::read_document(const std::string& text, const std::string& name) {
  file_ = name;
  const auto document = parse_document(text, name, problems_);
  file_was_read_ = document.has_value();
  if (document) read_section(*document, "");
}

void Loader::read_section(const Node& node, const std::string& path) {
  if (node.kind == Kind::alias) return;  // refused already
  const bool own_filter = path.ends_with(".filter");
  if (node.kind == Kind::null && !own_filter) return;
  // A section that can be switched off as a whole has a word for it.
  if (const Option* enabled = find(below(path, "enabled")); path == "storm" && node.kind == Kind::scalar) {
    Node word = node;
    word.text = node.text == "off" ? "false" : node.text == "on" ? "true" : node.text;
    if (word.text != node.text) return apply(*enabled, word, in_file(node, path));
  }
  if (node.kind != Kind::mapping) {
    if (path.empty() && node.kind == Kind::scalar)
      return blame(in_file(node, path), {},
                   "not a section: no key with a colon and a space behind it (write key: value)");
    const std::string also = own_filter ? "; {} for none, although others have one" : "";
    return blame(in_file(node, path), shown(path, node),
                 std::string(node.kind == Kind::sequence ? "a list, not a section (take the - away; allowed: "
                                                         : "not a section (allowed: ") +
                     joined(keys_of(path)) + ", each on a line below" + also + ")");
  }
  if (!path.empty()) given_[path] = in_file(node, path);
  std::map<std::string, int> lines;
  for (std::size_t i = 0; i < node.keys.size() && problems_.size() <= kMostProblems; ++i) {
    const Node& key = node.keys[i];
    if (key.kind != Kind::scalar) {
      if (key.kind != Kind::alias)
        blame(in_file(key, path), {}, "a key that is no word (allowed: " + joined(keys_of(path)) + ")");
      continue;
    }
    const auto [first, fresh] = lines.emplace(key.text, key.line);
    if (fresh)
      read_entry(key, node.items[i], path);
    else
      blame(in_file(key, hide_secrets(below(path, key.text))), {},
            "duplicate key, first in line " + std::to_string(first->second) + " (allowed: once)");
  }
}

void Loader::read_entry(const Node& key, const Node& value, const std::string& section) {
  const std::string path = below(section, key.text);
  const bool single_word = key.text.find('.') == std::string::npos;
  if (const Option* option = find(path); option && single_word) {
    if (value.kind != Kind::alias) apply(*option, value, in_file(value, path));
    return;
  }
  if (is_section(path) && single_word) return read_section(value, path);
  const Origin origin = in_file(key, below(section, hide_secrets(key.text)));
  const bool of_reconciler =
      section.starts_with("reconcilers.") && section.find('.', 12) == std::string::npos;
  if (key.text == "filter" && of_reconciler)
    return blame(origin, {},
                 "the filter does not apply to this reconciler (allowed: " + joined(keys_of(section)) + ")");
  const std::size_t sign = key.text.find_first_of(":= ");
  const std::string meant = nearest(key.text.substr(0, sign), keys_of(section));
  if (sign != std::string::npos && value.kind == Kind::null)
    return blame(
        in_file(key, section), {},
        "no key with a colon and a space behind it (write " + (meant.empty() ? "key" : meant) + ": value)");
  // The value is not repeated: it may be a password under a misspelled key.
  blame(origin, {},
        "unknown key" + (meant.empty() ? belongs_below(section, key.text) : ", did you mean " + meant + "?") +
            " (allowed: " + joined(keys_of(section)) + ")");
}

void Loader::read_overrides(const std::vector<Override>& overrides) {
  for (const Override& given : overrides) {
    const Origin origin{3, "command line", 0, given.flag};
    if (const Option* option = find(given.path))
      read_text(*option, given.value, origin);
    else
      blame(origin, {}, "there is no option " + given.path);
  }
}

void Loader::read_text(const Option& option, const std::string& text, const Origin& origin) {
  if (const auto earlier = given_.find(option.path);
      earlier != given_.end() && earlier->second.source == origin.source)
    blame(origin, {}, "says the same as " + earlier->second.label + " (allowed: one of them)");
  const bool structured =
      (option.type == Option::Type::partitions || option.type == Option::Type::durations) &&
      (text.starts_with('[') || text.starts_with('{'));
  std::vector<Problem> problems;
  if (const auto parsed = structured ? parse_document(text, origin.file, problems) : std::nullopt;
      parsed && problems.empty())
    return apply(option, *parsed, origin);
  Node node;
  node.kind = Kind::scalar;
  node.text = text;
  apply(option, node, origin);
}

void Loader::apply(const Option& option, const Node& node, const Origin& origin) {
  settle_other_form(option, origin);
  given_[option.path] = origin;
  try {
    option.set(config_, parse_value(option, node));
  } catch (const std::invalid_argument& error) {
    failed_.insert(option.path);
    blame(origin, shown(option.path, node),
          std::string(error.what()) + " (allowed: " + allowed(option) + ")");
  }
}

void Loader::settle_other_form(const Option& option, const Origin& origin) {
  if (option.other_form.empty()) return;
  const auto other = given_.find(option.other_form);
  if (other == given_.end()) return;
  if (other->second.source == origin.source)
    blame(origin, {}, "contradicts " + other->second.label + " (allowed: one of them)");
  find(option.other_form)->set(config_, std::string());
}

Config Loader::finish(const Sources& sources) {
  read_url_file();
  check_password_file();
  inherit_filters();
  run_checks();
  check_database(sources);
  if (sources.warn)
    for (const Problem& warning : warnings_) sources.warn(warning);
  if (problems_.size() > kMostProblems) {
    problems_.resize(kMostProblems);
    problems_.push_back({file_, 0, {}, {}, "there are more problems than these"});
  }
  if (!problems_.empty()) throw Invalid(std::move(problems_));
  return std::move(config_);
}

void Loader::read_url_file() {
  if (config_.database.url_file.empty()) return;
  const Option& url = *find("database.url");
  try {
    Node node;
    node.kind = Kind::scalar;
    node.text = read_small_file(config_.database.url_file);
    if (node.text.ends_with('\n')) node.text.pop_back();
    if (node.text.ends_with('\r')) node.text.pop_back();
    if (node.text.empty()) throw std::invalid_argument("is empty");
    url.set(config_, parse_value(url, node));
  } catch (const std::exception& error) {
    failed_.insert("database.url_file");
    blame(given_["database.url_file"], hide_secrets(config_.database.url_file),
          "the file: " + std::string(error.what()) + " (allowed: one line with a URL or a keyword string)");
  }
}

// It is read anew for each connection, and may come later or be a pipe: but one that is there and empty is a mistake, as is
// a directory.
void Loader::check_password_file() {
  const std::string& path = config_.database.password_file;
  if (path.empty()) return;
  const Origin& origin = given_["database.password_file"];
  const std::string allowed = " (allowed: one line with the password)";
  std::error_code absent;
  const auto type = std::filesystem::status(path, absent).type();
  const bool is_empty = type == std::filesystem::file_type::regular && has_no_password(path);
  if (is_empty || type == std::filesystem::file_type::directory) {
    failed_.insert("database.password_file");
    blame(origin, hide_secrets(path), (is_empty ? "the file is empty" : "a directory, not a file") + allowed);
  } else if (const std::string why = why_unreadable(path); !why.empty()) {
    warn(origin, hide_secrets(path), "the file cannot be read as yet: " + why + allowed);
  } else if (is_readable_by_others(path)) {
    warn(origin, hide_secrets(path),
         "the file can be read by everybody on this machine (allowed: mode 0600, or 0640)");
  }
}

void Loader::inherit_filters() {
  for (std::size_t i = 0; i < decls_.size(); ++i) {
    const std::string section = "reconcilers." + std::string(decls_[i].name) + ".filter";
    const bool own = std::any_of(given_.begin(), given_.end(), [&](const auto& entry) {
      return entry.first == section || is_below(entry.first, section);
    });
    if (decls_[i].filterable && !own) config_.reconcilers[i].filter = config_.filter;
  }
}

void Loader::run_checks() {
  if (!file_was_read_) return;  // what it says could make every contradiction disappear
  for (const Check& check : checks(decls_)) {
    const auto failed = [&](const std::string& key) { return failed_.count(key) > 0; };
    if (std::any_of(check.keys.begin(), check.keys.end(), failed) || !check.contradicts(config_)) continue;
    // The blame goes to what was said last among those that take part. What nobody set contradicts nothing.
    const Origin* origin = nullptr;
    for (const std::string& key : check.keys) {
      const auto given = given_.find(key);
      if (given == given_.end()) continue;
      if (!origin ||
          std::pair(given->second.source, given->second.line) >= std::pair(origin->source, origin->line))
        origin = &given->second;
    }
    if (origin) blame(*origin, {}, check.message(config_));
  }
}

// The blame goes to where the URL was said last.
void Loader::check_database(const Sources& sources) {
  const auto of_it = [](const std::string& path) {
    return path.starts_with("database.url") || path.starts_with("database.password");
  };
  if (!file_was_read_ || std::ranges::any_of(failed_, of_it)) return;
  const bool in_file = !config_.database.url_file.empty();
  const auto said = given_.find(in_file ? "database.url_file" : "database.url");
  const Origin origin = said == given_.end() ? Origin{0, {}, 0, "database.url"} : said->second;
  const std::string& url = config_.database.url;
  const std::string shown = hide_secrets(url);
  std::string wrong;
  try {
    if (sources.check_database) wrong = sources.check_database(config_.database);
  } catch (const Invalid& invalid) {  // it is somebody else's fault
    problems_.insert(problems_.end(), invalid.problems().begin(), invalid.problems().end());
    return;
  }
  // What is refused may have been meant otherwise: in a query a password with a bare "&" or "?" looks like parameters.
  const std::size_t query = url.find("://") == std::string::npos ? std::string::npos : shown.find('?');
  if (!wrong.empty())
    return blame(origin,
                 query == std::string::npos ? shown : shown.substr(0, query + 1) + std::string(kHidden),
                 wrong);
  if (!sources.database_warnings) return;
  for (const std::string& warning : sources.database_warnings(config_.database)) warn(origin, shown, warning);
}

const Option* Loader::find(std::string_view path) const {
  const auto found = std::find_if(options_.begin(), options_.end(),
                                  [&](const Option& option) { return option.path == path; });
  return found == options_.end() ? nullptr : &*found;
}

bool Loader::is_section(std::string_view path) const {
  return std::any_of(options_.begin(), options_.end(),
                     [&](const Option& option) { return is_below(option.path, path); });
}

bool Loader::holds_secret(std::string_view path) const {
  return std::any_of(options_.begin(), options_.end(), [&](const Option& option) {
    return option.secret != Option::Secret::none && (option.path == path || is_below(option.path, path));
  });
}

// Of what lost its indentation. Where several sections have such a key, nobody knows.
std::string Loader::belongs_below(std::string_view section, const std::string& key) const {
  if (!section.empty()) return {};
  std::string found;
  for (const Option& option : options_) {
    const std::size_t dot = option.path.find('.');
    if (dot == std::string::npos || option.path.substr(dot + 1) != key) continue;
    if (!found.empty()) return {};
    found = option.path.substr(0, dot);
  }
  return found.empty() ? "" : ", it belongs below " + found + ", indented";
}

std::vector<std::string> Loader::keys_of(std::string_view section) const {
  std::vector<std::string> keys;
  for (const Option& option : options_) {
    if (!is_below(option.path, section)) continue;
    const std::size_t begin = section.empty() ? 0 : section.size() + 1;
    const std::string key = option.path.substr(begin, option.path.find('.', begin) - begin);
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

Loader::Origin Loader::in_file(const Node& node, const std::string& path) const {
  return {kFromFile, file_, node.line, path};
}

std::string Loader::shown(const std::string& path, const Node& node) const {
  if (node.kind == Kind::mapping) return "{...}";
  if (node.kind == Kind::sequence) return "[...]";
  if (node.kind != Kind::scalar || node.text.empty()) return {};
  // What stands in the wrong place may be a connection string.
  return holds_secret(path) ? std::string(kHiddenValue) : hide_secrets(node.text);
}

void Loader::blame(const Origin& origin, std::string value, std::string message) {
  problems_.push_back({origin.file, origin.line, origin.label, std::move(value), std::move(message)});
}

void Loader::warn(const Origin& origin, std::string value, std::string message) {
  warnings_.push_back({origin.file, origin.line, origin.label, std::move(value), std::move(message)});
}

Config load(const Sources& sources, const std::vector<ReconcilerDecl>& decls) {
  Loader loader(decls);
  if (sources.file) loader.read_file(*sources.file);
  loader.read_environment(sources.environment);
  loader.read_overrides(sources.overrides);
  return loader.finish(sources);
}

}  // namespace ff::config
