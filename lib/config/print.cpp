#include "config/print.hpp"

#include "config/options.hpp"
#include "config/secrets.hpp"
#include "config/value.hpp"

namespace ff::config {
namespace {

constexpr std::string_view kHead =
    R"(# The configuration of ff-reconcilerd. Each value below is the default; a key in a comment has none and shows an
# example. A flag wins over an environment variable, and a variable over this file. The variable that sets
# database.pool_size is FF_RECONCILER_DATABASE_POOL_SIZE, and so on; FF_DATABASE_URL sets database.url as well.
# On SIGHUP this file is read again; what is marked with "restart" keeps its old value until there is one.
)";

constexpr std::size_t kWidest = 100;  // beyond, a comment stands on a line of its own

struct Lines {
  std::vector<std::string> lines;
  bool any_set = false;  // at least one line is live
};

/// Walks the option table section by section.
class Printer {
 public:
  Printer(const Config& config, const std::vector<ReconcilerDecl>& decls, bool commented)
      : config_(config), decls_(decls), options_(options(decls)), commented_(commented) {}

  std::string text() {
    std::string text{commented_ ? kHead : ""};
    for (const std::string& line : section("").lines) text += line + '\n';
    return text;
  }

 private:
  Lines section(const std::string& prefix) {
    std::vector<Lines> parts;
    Lines all;
    bool after_section = true;
    while (next_ < options_.size() && options_[next_].path.starts_with(prefix)) {
      const std::string& path = options_[next_].path;
      const std::size_t dot = path.find('.', prefix.size());
      const bool leads_on = dot != std::string::npos;
      if (prefix.empty() && commented_ && (leads_on || after_section)) parts.push_back({{""}, true});
      after_section = leads_on;
      parts.push_back(leads_on ? subsection(path.substr(0, dot), prefix) : leaf(path.substr(prefix.size())));
      all.any_set = all.any_set || parts.back().any_set;
    }
    // Where nothing is set at all, the section above becomes a comment as a whole.
    for (const Lines& part : parts) {
      for (const std::string& line : part.lines)
        all.lines.push_back(all.any_set && !part.any_set && !line.starts_with('#') ? "# " + line : line);
    }
    return all;
  }

  Lines subsection(const std::string& path, const std::string& prefix) {
    const std::string name = path.substr(prefix.size());
    const Lines body = section(path + '.');
    if (!body.any_set && !commented_) return filters_nothing(path) ? Lines{{name + ": {}"}, true} : Lines{};
    const std::string summary = commented_ ? section_summary(path, decls_) : "";
    Lines all{{name + ':' + (summary.empty() ? "" : "  # " + summary)}, body.any_set};
    for (const std::string& line : body.lines) all.lines.push_back("  " + line);
    return all;
  }

  Lines leaf(const std::string& name) {
    const Option& option = options_[next_++];
    const std::string value = format_value(option, option.get(config_));
    if (!commented_) return effective(option, name, value);
    const std::string line = name + ": " + (value.empty() ? option.example : value);
    const std::string comment = "# " + remark(option);
    if (line.size() + comment.size() <= kWidest) return {{line + "  " + comment}, !value.empty()};
    return {{comment, line}, !value.empty()};
  }

  Lines effective(const Option& option, const std::string& name, const std::string& value) const {
    if (value.empty() || (option.path == "database.url" && !config_.database.url_file.empty())) return {};
    if (option.secret == Option::Secret::whole) return {{"# " + name + ": (hidden)"}, true};
    if (option.secret == Option::Secret::conninfo)
      return {{name + ": " + format_value(option, hide_secrets(std::get<std::string>(option.get(config_))))},
              true};
    return {{name + ": " + value}, true};
  }

  /// A reconciler that is exempt from the common filter has to say so.
  bool filters_nothing(const std::string& path) const {
    for (const Reconciler& reconciler : config_.reconcilers) {
      if (path == "reconcilers." + reconciler.name + ".filter")
        return reconciler.filter.matches_everything() && !config_.filter.matches_everything();
    }
    return false;
  }

  static std::string remark(const Option& option) {
    const bool bounded = option.type != Option::Type::text && option.type != Option::Type::partitions &&
                         option.type != Option::Type::address;
    std::string notes = bounded ? range(option) : "";
    if (!option.reloadable) notes += notes.empty() ? "restart" : "; restart";
    if (option.summary.empty() || notes.empty()) return option.summary + notes;
    return option.summary + " (" + notes + ')';
  }

  const Config& config_;
  const std::vector<ReconcilerDecl>& decls_;
  const std::vector<Option> options_;
  const bool commented_;
  std::size_t next_ = 0;
};

}  // namespace

std::string print(const Config& config, const std::vector<ReconcilerDecl>& decls) {
  return Printer(config, decls, false).text();
}

// FNV-1a, folded: std::hash promises nothing beyond one process.
std::uint64_t fingerprint(const Config& config, const std::vector<ReconcilerDecl>& decls) {
  Config shared = config;
  shared.partitions = Config{}.partitions;
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : print(shared, decls))
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return (hash >> 48) ^ (hash & 0xffffffffffff);
}

std::string print_default(const std::vector<ReconcilerDecl>& decls) {
  return Printer(defaults(decls), decls, true).text();
}

}  // namespace ff::config
