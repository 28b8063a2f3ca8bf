#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/document.hpp"
#include "config/load.hpp"
#include "config/options.hpp"

namespace ff::config {

/// One run of load(): takes the sources in rising precedence, then finish().
class Loader {
 public:
  explicit Loader(const std::vector<ReconcilerDecl>& decls);

  void read_file(const std::string& path);
  /// What a file of this name says.
  void read_document(const std::string& text, const std::string& name);
  void read_environment(const std::map<std::string, std::string>& variables);
  void read_overrides(const std::vector<Override>& overrides);
  /// Reads what stands in other files, fills in what is inherited and looks for contradictions.
  Config finish(const Sources& sources);

 private:
  struct Origin {
    int source = 0;  // 1: the file, 2: the environment, 3: the command line
    std::string file;
    int line = 0;
    std::string label;  // what the operator calls it there
  };

  void read_section(const Node& node, const std::string& path);
  void read_entry(const Node& key, const Node& value, const std::string& section);
  void read_text(const Option& option, const std::string& text, const Origin& origin);
  void apply(const Option& option, const Node& node, const Origin& origin);
  void settle_other_form(const Option& option, const Origin& origin);
  void read_url_file();
  void check_password_file();
  void inherit_filters();
  void run_checks();
  void check_database(const Sources& sources);

  const Option* find(std::string_view path) const;
  bool is_section(std::string_view path) const;
  bool holds_secret(std::string_view path) const;
  std::string belongs_below(std::string_view section, const std::string& key) const;
  std::vector<std::string> keys_of(std::string_view section) const;
  Origin in_file(const Node& node, const std::string& path) const;
  std::string shown(const std::string& path, const Node& node) const;
  void blame(const Origin& origin, std::string value, std::string message);
  void warn(const Origin& origin, std::string value, std::string message);

  const std::vector<ReconcilerDecl>& decls_;
  const std::vector<Option> options_;
  Config config_;
  std::string file_;
  bool file_was_read_ = true;
  std::map<std::string, Origin, std::less<>>
      given_;                                  // by path: where it was set last; sections of the file, too
  std::set<std::string, std::less<>> failed_;  // paths whose value was refused
  std::vector<Problem> problems_;
  std::vector<Problem> warnings_;
};

}  // namespace ff::config
