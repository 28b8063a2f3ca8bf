#include "migrate/migrate.hpp"

#include <fmt/format.h>
#include <iostream>

#include "commands.hpp"
#include "configuration.hpp"
#include "exit_codes.hpp"
#include "log.hpp"

namespace ff::daemon {
namespace {

int print(const migrate::State& state) {
  switch (state.origin) {
    case migrate::Origin::none:
      std::cout << "no schema\n";
      break;
    case migrate::Origin::ours:
      std::cout << fmt::format("schema of ff-reconciler, {}\n", version_text(state));
      break;
    case migrate::Origin::flowfabric:
      std::cout << fmt::format("schema of FlowFabric, {}: verified, never altered\n", version_text(state));
      break;
  }
  if (state.fan_out) std::cout << fmt::format("hash children per table: {}\n", *state.fan_out);
  for (const migrate::Migration& m : state.pending)
    std::cout << fmt::format("pending: {:04} {}\n", m.version, m.name);
  for (const std::string& problem : state.problems) std::cout << "problem: " << problem << '\n';
  for (const std::string& warning : state.warnings) std::cout << "warning: " << warning << '\n';
  const bool fit = state.usable() && state.pending.empty();
  if (fit) std::cout << "the reconcilers can run on it\n";
  return fit ? kDone : kProblem;
}

}  // namespace

int migrate(const Arguments& arguments) {
  const std::string& verb = arguments.words().front();
  if (verb != "up" && verb != "status" && verb != "sql")
    throw UsageError("migrate: \"" + verb + "\" is not up, status or sql");
  const auto fan_out =
      static_cast<int>(arguments.number("fan-out", 1, migrate::kMaxFanOut).value_or(migrate::kDefaultFanOut));
  if (verb == "sql") {
    std::cout << migrate::sql(fan_out);
    return kDone;
  }
  const config::Config config = load_config(arguments);
  set_up_log({config::LogLevel::warn, config.log.format});
  const pg::Connector connector = make_connector(config.database);
  pg::Connection connection = connector.connect(Clock::system().now() + config.database.acquire_timeout);
  if (verb == "status") return print(migrate::inspect(connection));
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
