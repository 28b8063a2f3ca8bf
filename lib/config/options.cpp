#include "config/options.hpp"

#include <type_traits>
#include <utility>

namespace ff::config {
namespace {

using Type = Option::Type;

constexpr std::int64_t kSecond = 1'000;
constexpr std::int64_t kMinute = 60 * kSecond;
constexpr std::int64_t kHour = 60 * kMinute;
constexpr std::int64_t kDay = 24 * kHour;
constexpr std::int64_t kLongestText = 4096;

template <typename Member>
Value to_value(const Member& member) {
  if constexpr (std::is_same_v<Member, Milliseconds>)
    return member.count();
  else if constexpr (std::is_same_v<Member, int> || std::is_enum_v<Member>)
    return static_cast<std::int64_t>(member);
  else if constexpr (std::is_same_v<Member, std::string>)
    return member.empty() ? Value{} : Value{member};
  else
    return member;
}

template <typename Member>
void from_value(Member& member, const Value& value) {
  if constexpr (std::is_same_v<Member, Milliseconds>)
    member = Milliseconds{std::get<std::int64_t>(value)};
  else if constexpr (std::is_same_v<Member, int> || std::is_enum_v<Member>)
    member = static_cast<Member>(std::get<std::int64_t>(value));
  else
    member = std::get<Member>(value);
}

/// Binds an option to a member; `member` turns a Config, const or not, into a reference to it.
template <typename MemberOf>
Option bound(MemberOf member, Option option) {
  option.get = [member](const Config& config) {
    return to_value<std::remove_cvref_t<decltype(member(config))>>(member(config));
  };
  option.set = [member](Config& config, const Value& value) { from_value(member(config), value); };
  return option;
}

void add_database(std::vector<Option>& table) {
  table.push_back(bound(
      [](auto& c) -> auto& { return c.database.url; },
      {.path = "database.url",
       .summary = "a postgresql:// URL or a keyword string; without it libpq's PG* variables hold",
       .most = 16'384,
       .secret = Option::Secret::conninfo,
       .example = "postgresql://ff_reconciler@db1/flowfabric?sslmode=verify-full&sslrootcert=/etc/ssl/db.crt"
                  "&channel_binding=require",
       .other_form = "database.url_file"}));
  table.push_back(bound([](auto& c) -> auto& { return c.database.url_file; },
                        {.path = "database.url_file",
                         .summary = "a file that holds the URL instead, read at the start",
                         .most = kLongestText,
                         .example = "/run/secrets/ff-db-url",
                         .other_form = "database.url"}));
  table.push_back(bound([](auto& c) -> auto& { return c.database.password; },
                        {.path = "database.password",
                         .summary = "overrides the one in the URL; better kept in a file",
                         .most = kLongestText,
                         .secret = Option::Secret::whole,
                         .example = "\"...\"",
                         .other_form = "database.password_file"}));
  table.push_back(bound([](auto& c) -> auto& { return c.database.password_file; },
                        {.path = "database.password_file",
                         .summary = "a file that holds the password instead, read anew for each connection",
                         .most = kLongestText,
                         .example = "/run/secrets/ff-db-password",
                         .other_form = "database.password"}));
  table.push_back(bound([](auto& c) -> auto& { return c.database.pool_size; },
                        {.path = "database.pool_size",
                         .type = Type::count,
                         .summary = "connections, shared by all reconcilers: threads + helpers + 1 at least",
                         .least = 1,
                         .most = 1000}));
  table.push_back(bound([](auto& c) -> auto& { return c.database.acquire_timeout; },
                        {.path = "database.acquire_timeout",
                         .type = Type::duration,
                         .summary = "for a connection to become free or be made",
                         .least = 10,
                         .most = kHour}));
  table.push_back(bound([](auto& c) -> auto& { return c.database.connect_timeout; },
                        {.path = "database.connect_timeout",
                         .type = Type::duration,
                         .summary = "for one host to answer",
                         .least = 10,
                         .most = kHour}));
  table.push_back(bound([](auto& c) -> auto& { return c.database.statement_timeout; },
                        {.path = "database.statement_timeout",
                         .type = Type::duration,
                         .summary = "for one statement",
                         .least = 10,
                         .most = kDay}));
}

/// The filter of a section as it would be written there: a reconciler that shares the common one writes none.
template <typename FilterOf>
ScannerFilter written_filter(FilterOf filter, bool common, const Config& config) {
  return !common && filter(config) == config.filter ? ScannerFilter{} : filter(config);
}

template <typename FilterOf>
Option tag_option(FilterOf filter, bool common, std::string ScannerFilter::Tag::*part, Option option) {
  option.get = [filter, common, part](const Config& config) {
    const ScannerFilter own = written_filter(filter, common, config);
    return own.instance_tag ? Value{(*own.instance_tag).*part} : Value{};
  };
  option.set = [filter, part](Config& config, const Value& value) {
    ScannerFilter& own = filter(config);
    if (!own.instance_tag) own.instance_tag.emplace();
    (*own.instance_tag).*part = std::get<std::string>(value);
  };
  return option;
}

template <typename FilterOf>
void add_filter(std::vector<Option>& table, const std::string& section, FilterOf filter) {
  const bool common = section == "filter";
  const auto row = [&section](const char* key, const char* summary, const char* example) {
    return Option{.path = section + key,
                  .summary = summary,
                  .least = 1,
                  .most = kLongestText,
                  .reloadable = true,
                  .example = example};
  };
  Option name_space = row(".namespace", "only executions of this namespace", "tenant-a");
  name_space.get = [filter, common](const Config& config) {
    const ScannerFilter own = written_filter(filter, common, config);
    return own.name_space ? Value{*own.name_space} : Value{};
  };
  name_space.set = [filter](Config& config, const Value& value) {
    filter(config).name_space = std::get<std::string>(value);
  };
  table.push_back(std::move(name_space));
  using Tag = ScannerFilter::Tag;
  const Option key = row(".instance_tag.key", "only executions that carry this tag ...", "cairn.instance_id");
  const Option value = row(".instance_tag.value", "... with this value", "i-1");
  table.push_back(tag_option(filter, common, &Tag::key, key));
  table.push_back(tag_option(filter, common, &Tag::value, value));
}

void add_common(std::vector<Option>& table) {
  table.push_back(
      bound([](auto& c) -> auto& { return c.partitions; },
            {.path = "partitions",
             .type = Type::partitions,
             .summary = "of ff_partition_config; or a share: 0-63, [0-63, 128], {shard: 0, of: 4}"}));
  add_filter(
      table, "filter", [](auto& c) -> auto& { return c.filter; });
  table.push_back(bound([](auto& c) -> auto& { return c.threads; },
                        {.path = "threads",
                         .type = Type::count,
                         .summary = "reconcilers that work at the same time",
                         .least = 1,
                         .most = 256}));
  table.push_back(
      bound([](auto& c) -> auto& { return c.helpers; },
            {.path = "helpers",
             .type = Type::count,
             .summary = "threads that join in a large backlog; each takes a processor from the workers",
             .least = 0,
             .most = 256}));
  table.push_back(bound(
      [](auto& c) -> auto& { return c.recovery_grace; },
      {.path = "recovery_grace",
       .type = Type::duration,
       .summary = "after the database was away or its clock set, leases may be renewed before any is taken",
       .most = kHour}));
}

void add_storm(std::vector<Option>& table) {
  table.push_back(bound(
      [](auto& c) -> auto& { return c.storm.enabled; },
      {.path = "storm.enabled", .type = Type::flag, .summary = "`storm: on` says true", .reloadable = true}));
  table.push_back(bound([](auto& c) -> auto& { return c.storm.rate; },
                        {.path = "storm.rate",
                         .type = Type::rate,
                         .summary = "rows given back a second; auto: a quarter more than are claimed",
                         .least = 1,
                         .most = 1'000'000,
                         .reloadable = true}));
  table.push_back(bound([](auto& c) -> auto& { return c.storm.floor; },
                        {.path = "storm.floor",
                         .type = Type::count,
                         .summary = "the least that auto comes to, rows a second",
                         .least = 1,
                         .most = 1'000'000,
                         .reloadable = true}));
  table.push_back(bound([](auto& c) -> auto& { return c.storm.breaker; },
                        {.path = "storm.breaker",
                         .type = Type::choice,
                         .summary = "takes no lease for a while when many workers lose some at once",
                         .choices = {"off", "on"},
                         .reloadable = true}));
  table.push_back(bound([](auto& c) -> auto& { return c.storm.share; },
                        {.path = "storm.share",
                         .type = Type::percent,
                         .summary = "so many of all leases, and of all who hold them",
                         .least = 1,
                         .most = 100,
                         .reloadable = true}));
  table.push_back(bound([](auto& c) -> auto& { return c.storm.hold; },
                        {.path = "storm.hold",
                         .type = Type::duration,
                         .summary = "for how long: who lives renews its leases",
                         .least = kSecond,
                         .most = kHour,
                         .reloadable = true}));
}

Option setting_option(const std::string& section, std::size_t index, const SettingDecl& decl) {
  const bool flag = decl.kind == SettingDecl::Kind::flag;
  const std::string name{decl.name};
  Option option{.path = section + '.' + name,
                .type = flag                                       ? Type::flag
                        : decl.kind == SettingDecl::Kind::duration ? Type::duration
                                                                   : Type::count,
                .summary = std::string(decl.summary),
                .least = decl.least,
                .most = decl.most,
                .may_be_unlimited = decl.may_be_unlimited,
                .zero_is_off = decl.zero_is_off,
                .reloadable = true};
  option.get = [index, name, flag](const Config& config) -> Value {
    const std::optional<std::int64_t>& value = config.reconcilers.at(index).settings.at(name);
    if (!value) return {};
    return flag ? Value{*value != 0} : Value{*value};
  };
  option.set = [index, name](Config& config, const Value& value) {
    std::optional<std::int64_t>& setting = config.reconcilers.at(index).settings[name];
    setting.reset();
    if (const bool* on = std::get_if<bool>(&value)) setting = *on ? 1 : 0;
    if (const std::int64_t* number = std::get_if<std::int64_t>(&value)) setting = *number;
  };
  return option;
}

/// Durations by name.
Option mapping_option(const std::string& section, std::size_t index, const SettingDecl& decl) {
  const std::string prefix = std::string(decl.name) + '.';
  Option option{.path = section + '.' + std::string(decl.name),
                .type = Type::durations,
                .summary = std::string(decl.summary),
                .least = decl.least,
                .most = decl.most,
                .reloadable = true};
  option.get = [index, prefix](const Config& config) -> Value {
    Durations all;
    for (const auto& [name, value] : config.reconcilers.at(index).settings)
      if (name.starts_with(prefix)) all.emplace(name.substr(prefix.size()), value);
    return all;
  };
  option.set = [index, prefix](Config& config, const Value& value) {
    Settings& settings = config.reconcilers.at(index).settings;
    std::erase_if(settings, [&](const auto& entry) { return entry.first.starts_with(prefix); });
    for (const auto& [name, duration] : std::get<Durations>(value)) settings[prefix + name] = duration;
  };
  return option;
}

void add_reconciler(std::vector<Option>& table, std::size_t i, const ReconcilerDecl& decl) {
  const std::string section = "reconcilers." + std::string(decl.name);
  table.push_back(
      bound([i](auto& c) -> auto& { return c.reconcilers.at(i).enabled; },
            {.path = section + ".enabled", .type = Type::flag, .summary = {}, .reloadable = true}));
  table.push_back(bound([i](auto& c) -> auto& { return c.reconcilers.at(i).interval; },
                        {.path = section + ".interval",
                         .type = Type::duration,
                         .summary = "between two scans when nothing is known to be due",
                         .least = 10,
                         .most = kDay,
                         .reloadable = true}));
  table.push_back(bound([i](auto& c) -> auto& { return c.reconcilers.at(i).batch_size; },
                        {.path = section + ".batch_size",
                         .type = Type::count,
                         .summary = "rows in one transaction",
                         .least = 1,
                         .most = 10'000,
                         .reloadable = true}));
  for (const SettingDecl& setting : decl.settings)
    table.push_back(setting.kind == SettingDecl::Kind::durations ? mapping_option(section, i, setting)
                                                                 : setting_option(section, i, setting));
  if (decl.filterable)
    add_filter(
        table, section + ".filter", [i](auto& c) -> auto& { return c.reconcilers.at(i).filter; });
}

void add_process(std::vector<Option>& table) {
  table.push_back({.path = "http.listen",
                   .type = Type::address,
                   .summary = "the page at /, /metrics, /livez, /readyz and /status",
                   .get = [](const Config& config) -> Value {
                     const std::string& host = config.http.host;
                     const bool ipv6 = host.find(':') != std::string::npos;
                     return (ipv6 ? '[' + host + ']' : host) + ':' + std::to_string(config.http.port);
                   },
                   .set =
                       [](Config& config, const Value& value) {
                         const std::string& address = std::get<std::string>(value);
                         const std::size_t colon = address.rfind(':');
                         const bool brackets = address.front() == '[';
                         config.http.host =
                             brackets ? address.substr(1, colon - 2) : address.substr(0, colon);
                         config.http.port = std::stoi(address.substr(colon + 1));
                       }});
  table.push_back(bound([](auto& c) -> auto& { return c.http.unready_on_fault; },
                        {.path = "http.unready_on_fault",
                         .type = Type::flag,
                         .summary = "/readyz says 503, too, while a reconciler fails"}));
  table.push_back(bound([](auto& c) -> auto& { return c.log.level; },
                        {.path = "log.level",
                         .type = Type::choice,
                         .summary = {},
                         .choices = {"trace", "debug", "info", "warn", "error"},
                         .reloadable = true}));
  table.push_back(bound([](auto& c) -> auto& { return c.log.format; },
                        {.path = "log.format",
                         .type = Type::choice,
                         .summary = "for people or for machines",
                         .choices = {"text", "json"}}));
  table.push_back(bound([](auto& c) -> auto& { return c.log.actions; },
                        {.path = "log.actions",
                         .type = Type::flag,
                         .summary = "a line for each execution ended or row deleted",
                         .reloadable = true}));
  table.push_back(bound([](auto& c) -> auto& { return c.shutdown.grace; },
                        {.path = "shutdown.grace",
                         .type = Type::duration,
                         .summary = "for running batches to finish; then they are rolled back",
                         .most = kHour}));
  table.push_back(bound([](auto& c) -> auto& { return c.metrics.per_partition; },
                        {.path = "metrics.per_partition",
                         .type = Type::flag,
                         .summary = "gauges by partition as well: many more time series"}));
}

}  // namespace

std::vector<Option> options(const std::vector<ReconcilerDecl>& decls) {
  std::vector<Option> table;
  add_database(table);
  add_common(table);
  add_storm(table);
  for (std::size_t i = 0; i < decls.size(); ++i) add_reconciler(table, i, decls[i]);
  add_process(table);
  return table;
}

Config defaults(const std::vector<ReconcilerDecl>& decls) {
  Config config;
  for (const ReconcilerDecl& decl : decls) {
    Reconciler reconciler{std::string(decl.name), decl.enabled, decl.interval, decl.batch_size, {}, {}};
    for (const SettingDecl& setting : decl.settings)
      if (setting.kind != SettingDecl::Kind::durations)
        reconciler.settings.emplace(setting.name, setting.fallback);
    config.reconcilers.push_back(std::move(reconciler));
  }
  return config;
}

std::vector<std::string> restart_needed(const Config& running, const Config& wanted) {
  std::vector<std::string> keys;
  for (const Option& option : options({})) {
    if (!option.reloadable && option.get(running) != option.get(wanted)) keys.push_back(option.path);
  }
  return keys;
}

}  // namespace ff::config
