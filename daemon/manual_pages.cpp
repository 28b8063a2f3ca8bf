#include <algorithm>
#include <array>

#include "build_info.hpp"
#include "config/options.hpp"
#include "config/value.hpp"
#include "exit_codes.hpp"
#include "manual.hpp"

namespace ff::daemon {
namespace {

// A page has no date: it is the version's.
std::string page_head(const std::string& name, int section, const std::string& title,
                      const std::string& summary) {
  return ".\\\" Made by `ff-reconcilerd manual " + name + '.' + std::to_string(section) + "`.\n" + ".TH \"" +
         roff(name) + "\" " + std::to_string(section) + " \"\" \"ff-reconciler " + roff(kVersion) + "\" \"" +
         title + "\"\n" + ".nh\n.ad l\n.SH NAME\n" + roff(name) + " \\- " + roff(summary) + '\n';
}

std::string tagged(std::string_view tag, std::string_view text) {
  return ".TP\n.B " + roff(tag) + '\n' + roff(text) + '\n';
}

std::string as_typed(const Option& its) {
  return "--" + std::string(its.name) + (its.value.empty() ? "" : ' ' + std::string(its.value));
}

std::string command_entry(const Command& command) {
  const std::string usage{command.words.usage};
  std::string text = tagged(std::string(command.name) + (usage.empty() ? "" : ' ' + usage), command.summary);
  std::string options;
  for (const std::string_view name : command.options)
    options += (options.empty() ? "" : ", ") + as_typed(option(name));
  if (!options.empty()) text += ".br\nOptions: " + roff(options) + ".\n";
  return text;
}

/// Each option that a command has, by its name.
std::string option_entries(const std::vector<Command>& commands) {
  std::vector<std::string_view> names;
  for (const Command& command : commands)
    names.insert(names.end(), command.options.begin(), command.options.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text;
  for (const std::string_view name : names) text += tagged(as_typed(option(name)), option(name).summary);
  return text + tagged("-h, --help", "of the program, or of the command it stands beside") +
         tagged("--version", "in place of a command: as `version`");
}

struct Entry {
  std::string_view tag;
  std::string_view text;
};

constexpr std::array kSignals{
    Entry{"SIGTERM, SIGINT",
          "`run` starts nothing more, lets running batches finish within shutdown.grace, then "
          "cancels and rolls back. A second one ends it at once."},
    Entry{
        "SIGHUP",
        "`run` reads the configuration file again. What needs a restart is named in the log; a file that is "
        "refused changes nothing."},
    Entry{"SIGKILL", "loses and repeats nothing: what was not committed is done by the next daemon."},
};

constexpr std::array kEnvironment{
    Entry{"FF_DATABASE_URL", "the database, as database.url of the configuration"},
    Entry{"FF_RECONCILER_*",
          "any key of the configuration: FF_RECONCILER_DATABASE_POOL_SIZE is database.pool_size. A "
          "flag wins over a variable, and a variable over the file."},
    Entry{"PGHOST, PGUSER, ...", "libpq's own, where the configuration says nothing"},
    Entry{"NOTIFY_SOCKET, WATCHDOG_USEC, JOURNAL_STREAM",
          "set by systemd: readiness, watchdog, priorities of log lines"},
};

constexpr std::array kFiles{
    Entry{"/etc/ff-reconciler/ff-reconciler.yaml",
          "the configuration that the service ff-reconcilerd reads; see "
          "ff-reconciler.yaml(5)"},
    Entry{"/etc/ff-reconciler/NAME.yaml",
          "that of the service ff-reconcilerd@NAME, for several databases on one machine"},
};

std::string exit_entries() {
  const auto code = [](ExitCode its, std::string_view text) { return tagged(std::to_string(its), text); };
  return code(kDone, "done; a stop on SIGTERM included") +
         code(kProblem, "rows failed, a check found something, or the server refused") +
         code(kUsage, "the command line is wrong") +
         code(kUnreachable, "the database cannot be reached; not `run`, which waits for it") +
         code(kInternal, "an error that nobody expected") +
         code(kConfiguration, "the configuration is refused");
}

template <typename Entries>
std::string section_of(const std::string& title, const Entries& entries) {
  std::string text = ".SH " + title + '\n';
  for (const Entry& entry : entries) text += tagged(entry.tag, entry.text);
  return text;
}

std::string default_of(const config::Option& key, const config::Config& defaults) {
  const std::string value = config::format_value(key, key.get(defaults));
  if (!value.empty()) return "Default: " + value + '.';
  return "No default" + (key.example.empty() ? "." : "; such as " + key.example + '.');
}

std::string key_entry(const config::Option& key, const config::Config& defaults) {
  std::string facts = config::allowed(key);
  facts.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(facts.front())));
  facts += ". " + default_of(key, defaults);
  if (!key.reloadable) facts += " A change needs a restart.";
  if (key.secret == config::Option::Secret::whole) facts += " Never shown.";
  const std::string text = tagged(key.path, key.summary.empty() ? facts : key.summary);
  return key.summary.empty() ? text : text + ".br\n" + roff(facts) + '\n';
}

constexpr std::string_view kConfiguration5 =
    R"(YAML: keys within keys, of which this page names each by its whole path. "database.pool_size" is "pool_size:" below "database:". Every key may be left out.
Durations carry their unit: ms, s, m, h or d. Unknown and repeated keys, anchors, aliases and several documents in one file are refused, each with its line and what is allowed.
.PP
The variable FF_RECONCILER_DATABASE_POOL_SIZE in the environment sets database.pool_size, and so on; it wins over the file. FF_DATABASE_URL sets database.url as well.
.PP
On SIGHUP the daemon reads the file again; what needs a restart keeps its old value until there is one. "ff\-reconcilerd check\-config FILE" says whether a file is accepted and what holds with it; "ff\-reconcilerd check\-config \-\-print\-default" prints a complete one.
)";

}  // namespace

std::string roff(std::string_view text) {
  std::string shown = !text.empty() && (text.front() == '.' || text.front() == '\'') ? "\\&" : "";
  for (const char c : text) {
    switch (c) {
      case '\\':
        shown += "\\(rs";
        break;
      case '-':
        shown += "\\-";
        break;
      case '\'':
        shown += "\\(aq";
        break;
      case '"':
        shown += "\\(dq";
        break;
      case '`':
        shown += "\\(ga";
        break;
      case '&':
      case '?':
        shown += std::string{c} + "\\:";  // where a long URL may be broken
        break;
      default:
        shown += c;
    }
  }
  return shown;
}

std::string daemon_page(const std::vector<Command>& commands) {
  std::string text = page_head("ff-reconcilerd", 8, "System Administration",
                               "reconciler daemon for FlowFabric on PostgreSQL") +
                     ".SH SYNOPSIS\n.B ff\\-reconcilerd\n.I COMMAND\n[\n.I OPTION...\n]\n.SH DESCRIPTION\n" +
                     roff(
                         "FlowFabric runs durable executions on PostgreSQL. This daemon notices executions "
                         "whose worker has crashed or "
                         "fallen silent, whose time is over or whose turn has come, and moves them on. Any "
                         "number of replicas may run "
                         "over the same database; row locks are their only coordinator.") +
                     "\n.SH COMMANDS\n";
  for (const Command& command : commands) text += command_entry(command);
  text +=
      ".SH OPTIONS\nEach means the same wherever it is accepted, and may stand before or after the "
      "command.\n" +
      option_entries(commands) + ".SH \"EXIT STATUS\"\n" + exit_entries();
  return text + section_of("SIGNALS", kSignals) + section_of("ENVIRONMENT", kEnvironment) +
         section_of("FILES", kFiles) + ".SH \"SEE ALSO\"\n.BR ff\\-reconciler.yaml (5)\n";
}

std::string configuration_page(const std::vector<config::ReconcilerDecl>& decls) {
  std::string text = page_head("ff-reconciler.yaml", 5, "File Formats", "configuration of ff-reconcilerd") +
                     ".SH DESCRIPTION\n" + std::string(kConfiguration5) + ".SH KEYS\n";
  const config::Config defaults = config::defaults(decls);
  std::string section;
  for (const config::Option& key : config::options(decls)) {
    const bool of_reconciler = key.path.starts_with("reconcilers.");
    const auto end = key.path.find('.', of_reconciler ? sizeof "reconcilers." - 1 : 0);
    const std::string its = end == std::string::npos ? std::string() : key.path.substr(0, end);
    if (its != section && !its.empty())
      text += ".SS " + roff(its) + '\n' + roff(config::section_summary(its, decls)) + '\n';
    if (its != section && its.empty()) text += ".SS of the whole daemon\n";
    section = its;
    text += key_entry(key, defaults);
  }
  return text + ".SH \"SEE ALSO\"\n.BR ff\\-reconcilerd (8)\n";
}

}  // namespace ff::daemon
