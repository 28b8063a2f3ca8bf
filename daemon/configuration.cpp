#include "configuration.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "base/printable.hpp"
#include "base/small_file.hpp"
#include "config/secrets.hpp"
#include "pg/conninfo.hpp"
#include "pg/error.hpp"

namespace ff::daemon {
namespace {

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::string shown(const std::string& keyword, const std::string& path) {
  return keyword + '=' + printable(path, config::kLongestQuoted);
}

[[noreturn]] void refuse_read_only(const std::string& url) {
  const std::string why =
      "target_session_attrs would take a server that takes no writes (allowed: read-write, which is the "
      "default, or primary)";
  if (const auto variable = pg::variable_behind(pg::parse_conninfo(url).given, "target_session_attrs"))
    throw pg::VariableRefused(*variable, why);
  throw std::invalid_argument(why);
}

[[noreturn]] void blame(const pg::VariableRefused& refused) {
  throw config::Invalid(
      {{"environment", 0, refused.name(),
        refused.value().empty() ? std::string(config::kHidden) : refused.value(), refused.why()}});
}

// A directory in the place of a file, where nothing goes on without; or what libpq would read for ever.
std::string never_a_file(const pg::Conninfo& conninfo) {
  std::error_code absent;
  for (const auto& [keyword, path] : pg::tls_files(conninfo)) {
    if (is_special_file(path)) return shown(keyword, path) + " is a pipe or a device (allowed: a file)";
    if (pg::wants_tls(conninfo) && std::filesystem::is_directory(path, absent))
      return shown(keyword, path) + " is a directory (allowed: a file)";
  }
  return {};
}

// A secret may be mounted later, and the daemon runs as somebody else: each connection looks anew.
std::vector<std::string> file_warnings(const pg::Conninfo& conninfo) {
  std::vector<std::string> warnings;
  for (const auto& [keyword, path] : pg::tls_files(conninfo))
    if (const std::string why = why_unreadable(path); !why.empty())
      warnings.push_back(shown(keyword, path) + " cannot be read as yet: " + why + " (allowed: a file)");
    else if (keyword == "sslkey" && pg::is_open_to_others(path))
      warnings.push_back(
          shown(keyword, path) +
          " is open to others, and libpq takes no such key (allowed: mode 0600, or 0640 where it "
          "belongs to root)");
  return warnings;
}

}  // namespace

const std::vector<config::ReconcilerDecl>& reconciler_decls() {
  static const std::vector<config::ReconcilerDecl> decls = [] {
    std::vector<config::ReconcilerDecl> all;
    for (const reconcile::Reconciler& r : reconcile::registry())
      all.push_back({r.name, r.summary, r.on_by_default, r.interval, r.batch_size, r.filterable, r.settings});
    return all;
  }();
  return decls;
}

config::Config load_config(const Arguments& arguments, ReadOnly read_only) {
  std::vector<config::Override> overrides;
  if (const auto url = arguments.text("database-url"))
    overrides.push_back({"--database-url", "database.url", *url});
  return load_config(arguments.text("config"), std::move(overrides), read_only);
}

config::Config load_config(std::optional<std::string> file, std::vector<config::Override> overrides,
                           ReadOnly read_only, std::function<void(const config::Problem&)> warn) {
  const auto wrong = [&](config::Database database) -> std::string {
    try {
      database.password_file.clear();  // the connector would log what is warned of here
      if (make_connector(database).takes_read_only() && read_only == ReadOnly::refused)
        refuse_read_only(database.url);
      return never_a_file(pg::parse_conninfo(database.url));
    } catch (const pg::VariableRefused& refused) {
      blame(refused);
    } catch (const std::invalid_argument& error) {
      const std::string what = error.what();
      return what.find("(allowed: ") == std::string::npos
                 ? what + " (allowed: a postgresql:// URL or libpq keywords)"
                 : what;
    }
  };
  const auto warnings = [](const config::Database& database) {
    return file_warnings(pg::parse_conninfo(database.url));
  };
  return config::load(
      {std::move(file), environment(), std::move(overrides), wrong, warnings, std::move(warn)},
      reconciler_decls());
}

pg::Connector make_connector(const config::Database& database, const std::string& application_name) {
  pg::ConnectOptions options{.conninfo = database.url,
                             .password = database.password,
                             .password_file = database.password_file,
                             .relation = "ff_exec_core",
                             .connect_timeout = database.connect_timeout,
                             .statement_timeout = database.statement_timeout};
  if (!application_name.empty()) options.application_name = application_name;
  return pg::Connector(options);
}

config::Database by_any_server(config::Database database) {
  pg::Keywords keywords = pg::parse_conninfo(database.url).given;
  keywords["target_session_attrs"] = "any";
  std::string conninfo;
  for (const auto& [keyword, value] : keywords) {
    conninfo += (conninfo.empty() ? "" : " ") + keyword + "='";
    for (const char c : value) conninfo += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
    conninfo += '\'';
  }
  database.url = conninfo;
  return database;
}

config::Database for_reading(const config::Database& database) {
  try {
    make_connector(database).connect(Clock::system().now() + database.acquire_timeout);
  } catch (const pg::Error& error) {
    if (!error.not_writable()) throw;
    std::cerr << "no server takes writes; what follows is of one that may be read\n";
    return by_any_server(database);
  }
  return database;
}

std::vector<const reconcile::Reconciler*> named_reconcilers(const std::vector<std::string>& words,
                                                            const config::Config& config) {
  std::set<std::string_view> wanted(words.begin(), words.end());
  if (wanted.size() != words.size()) throw UsageError("a reconciler is named twice");
  const bool all = wanted.erase("all") > 0;
  if (all && !wanted.empty()) throw UsageError("all or names, not both");
  const reconcile::Family enabled = family_of(config);
  std::vector<const reconcile::Reconciler*> found;
  std::vector<std::string> names{"all"};
  std::string known = "all";
  for (const reconcile::Reconciler& r : reconcile::registry()) {
    if (all ? enabled.find(r.name) != nullptr : wanted.erase(r.name) > 0) found.push_back(&r);
    names.emplace_back(r.name);
    known += ", " + names.back();
  }
  if (!wanted.empty())
    throw UsageError("there is no reconciler " + in_quotes(*wanted.begin()) +
                     did_you_mean(*wanted.begin(), names) + " (allowed: " + known + ")");
  return found;
}

reconcile::Family family_of(const config::Config& config) {
  reconcile::Family family;
  family.delays_reclaims = config.storm.enabled;
  for (const config::Reconciler& its : config.reconcilers)
    if (its.enabled) family.enabled.emplace(its.name, its.settings);
  return family;
}

reconcile::StormSettings storm_settings(const config::Storm& storm) {
  return {.on = storm.enabled,
          .rate = storm.rate == config::Storm::kAuto ? reconcile::StormSettings::kAuto : storm.rate,
          .floor = storm.floor,
          .breaker = {.on = storm.breaker == config::Storm::Breaker::on,
                      .share = storm.share / 100.0,
                      .hold = storm.hold}};
}

reconcile::Scope scope_of(const config::Config& config, const config::Reconciler& its,
                          Partitions partitions) {
  return {std::move(partitions), its.filter, its.batch_size, its.settings, family_of(config)};
}

}  // namespace ff::daemon
