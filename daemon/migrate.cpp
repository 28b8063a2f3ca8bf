#include "migrate/migrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "commands.hpp"
#include "configuration.hpp"
#include "exit_codes.hpp"
#include "grants.hpp"
#include "log.hpp"

namespace ff::daemon {
namespace {

int print(const migrate::State& state) {
  switch (state.origin) {
    case migrate::Origin::none:
      std::cout << (state.elsewhere.empty() ? "no schema\n" : "no schema that this session finds\n");
      break;
    case migrate::Origin::ours:
      std::cout << fmt::format("schema of ff-reconciler, {}\n", version_text(state));
      break;
    case migrate::Origin::flowfabric:
      std::cout << fmt::format("schema of FlowFabric, {}: verified, none of its tables is altered\n",
                               version_text(state));
      break;
  }
  if (state.fan_out) std::cout << fmt::format("hash children per table: {}\n", *state.fan_out);
  // Not what would make a second schema beside the one that is there.
  for (const migrate::Migration& m :
       state.elsewhere.empty() ? state.pending : std::vector<migrate::Migration>{})
    std::cout << fmt::format("pending: {:04} {}{}\n", m.version, m.name,
                             m.is_own() ? ", without which the reconcilers run, too" : "");
  for (const std::string& problem : state.problems) std::cout << "problem: " << problem << '\n';
  for (const std::string& warning : state.warnings) std::cout << "warning: " << warning << '\n';
  const bool fit = state.usable() && std::ranges::all_of(state.pending, &migrate::Migration::is_own);
  if (fit) std::cout << "the reconcilers can run on it\n";
  return fit ? kDone : kProblem;
}

// To be given to psql as it is: so what is wrong goes elsewhere.
int print_grants(const Arguments& arguments, const Needs& needs, pg::Connection& connection) {
  const migrate::State state = migrate::inspect(connection);
  for (const std::string& problem : state.problems) std::cerr << "ff-reconcilerd: " << problem << '\n';
  if (!state.usable()) return kProblem;
  std::cout << statements(connection, grants(connection, needs),
                          arguments.text("role").value_or("your_role"));
  return kDone;
}

// The words behind the verb name reconcilers.
Needs needs_named(const Arguments& arguments, const config::Config& config) {
  std::vector<std::string> names(arguments.words().begin() + 1, arguments.words().end());
  if (names.empty()) names.emplace_back("all");
  Needs needs = needs_of(named_reconcilers(names, config));
  const auto add = [&](const Needs& more) { needs.insert(needs.end(), more.begin(), more.end()); };
  add(needs_of_seeing_pauses());
  if (names.front() != "all") return needs;
  add(needs_of_reading());
  add(needs_of_pausing());
  return needs;
}

}  // namespace

int migrate(const Arguments& arguments) {
  const std::string& verb = arguments.words().front();
  if (verb != "up" && verb != "status" && verb != "sql" && verb != "grants")
    throw UsageError("migrate: " + in_quotes(verb) + " is not up, status, sql or grants");
  if (verb != "grants" && arguments.words().size() > 1)
    throw UsageError("migrate " + verb + ": stray word " + in_quotes(arguments.words()[1]));
  const auto fan_out =
      static_cast<int>(arguments.number("fan-out", 1, migrate::kMaxFanOut).value_or(migrate::kDefaultFanOut));
  if (verb == "sql") {
    std::cout << migrate::sql(fan_out);
    return kDone;
  }
  const config::Config config = load_config(arguments);
  const Needs granted = verb == "grants" ? needs_named(arguments, config) : Needs{};
  set_up_log({config::LogLevel::warn, config.log.format});
  const pg::Connector connector = make_connector(config.database);
  pg::Connection connection = connector.connect(Clock::system().now() + config.database.acquire_timeout);
  if (verb == "status") return print(migrate::inspect(connection));
  if (verb == "grants") return print_grants(arguments, granted, connection);
  try {
    const migrate::Report report = migrate::up(connection, fan_out, [](const migrate::Migration& migration) {
      std::cout << fmt::format("applied: {:04} {}\n", migration.version, migration.name);
    });
    return print(report.state);
  } catch (const migrate::Refused& refused) {
    std::cerr << "ff-reconcilerd: " << refused.what() << '\n';
    return kProblem;
  }
}

}  // namespace ff::daemon
