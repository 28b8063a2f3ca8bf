#include "demo/database.hpp"

#include <fmt/format.h>

#include "arguments.hpp"
#include "configuration.hpp"
#include "migrate/migrate.hpp"
#include "pg/server.hpp"

namespace ff::daemon {
namespace {

constexpr int kFanOut = 4;  // quick to make, and enough for several partitions to share a table

}  // namespace

DemoDatabase::DemoDatabase(std::optional<std::string> url,
                           const std::function<void(const std::string&)>& tell) {
  if (url) {
    config_.url = *url;
  } else {
    tell("Starting a private PostgreSQL ...");
    config_.url = server_.emplace().conninfo();
  }
  try {
    // The simulation names no schema.
    pg::ConnectOptions options = make_connector(config_).options();
    options.relation.clear();
    connector_ = std::make_unique<const pg::Connector>(options);
  } catch (const std::invalid_argument& invalid) {
    throw UsageError(invalid.what());
  }
  pg::Connection connection = connector_->connect(Clock::system().now() + config_.acquire_timeout);
  const int version = pg::server_info(connection).version / 10'000;
  description_ = server_ ? fmt::format("private PostgreSQL {}: psql -h {} -U postgres", version,
                                       server_->socket_directory().string())
                         : fmt::format("PostgreSQL {}: {}", version, connector_->description());
  make_schema(connection, tell);
}

void DemoDatabase::make_schema(pg::Connection& connection,
                               const std::function<void(const std::string&)>& tell) {
  const migrate::State state = migrate::inspect(connection);
  if (state.origin == migrate::Origin::none) {
    tell("Making the schema ...");
    migrate::up(connection, kFanOut);
    was_empty_ = true;
    return;
  }
  if (state.usable()) return;
  std::string message = "the schema of this database is not what the demo needs";
  for (const std::string& problem : state.problems) message += "\n  " + problem;
  if (!state.pending.empty()) message += "\n`ff-reconcilerd migrate up` brings it up to date";
  throw DatabaseUnfit(message);
}

}  // namespace ff::daemon
