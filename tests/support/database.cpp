#include "support/database.hpp"

#include "migrate/migrate.hpp"

namespace ff::test {
namespace {

constexpr Milliseconds kStatementTime{300'000};

std::string next_name() {
  static int made = 0;
  return "test_" + std::to_string(++made);
}

// Migrated once: copying a database is faster than migrating one.
const std::string& migrated_template() {
  static const std::string name = [] {
    const std::string made = "migrated";
    Database::server().create_database(made);
    const pg::Connector connector(options_for(Database::server().conninfo(made)));
    pg::Connection connection = connector.connect(Clock::system().now() + kConnectTime);
    migrate::up(connection, Database::kFanOut);
    return made;
  }();
  return name;
}

}  // namespace

pg::ConnectOptions options_for(const std::string& conninfo) {
  pg::ConnectOptions options;
  options.conninfo = conninfo;
  options.application_name = "ff-test";
  options.statement_timeout = kStatementTime;
  return options;
}

testserver::PrivateServer& Database::server() {
  static testserver::PrivateServer server;
  return server;
}

Database::Database() : Database(next_name(), migrated_template()) {}

Database::Database(EmptyDatabase) : Database(next_name(), "") {}

Database::Database(std::string name, const std::string& from_template)
    : name_(std::move(name)), connector_(options_for(server().conninfo(name_))) {
  server().create_database(name_, from_template);
}

Database::~Database() {
  server().drop_database(name_);
}

pg::Connection Database::connect() const {
  return connector_.connect(Clock::system().now() + kConnectTime);
}

}  // namespace ff::test
