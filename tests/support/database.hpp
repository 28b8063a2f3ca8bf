#pragma once

#include <string>

#include "pg/connect.hpp"
#include "testserver/private_server.hpp"

namespace ff::test {

/// How long a test waits for a connection to a server that runs.
constexpr Milliseconds kConnectTime{10'000};

/// As a test connects, with minutes for a statement: some make tens of thousands of rows while others have the machine.
/// What a product's own limit is about sets one.
pg::ConnectOptions options_for(const std::string& conninfo);

struct EmptyDatabase {};
constexpr EmptyDatabase empty_database() {
  return {};
}

/// A fresh database for one test, on a server that is started for the first one and stopped when the test
/// program ends. Dropped in the destructor, whoever is still connected.
class Database {
 public:
  /// With our schema, at a small fan-out.
  Database();
  /// Without any table: `Database db{empty_database()}`.
  explicit Database(EmptyDatabase);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Hash children per table: few, so that making a database is fast; several partition keys share one.
  static constexpr int kFanOut = 4;

  const std::string& name() const { return name_; }
  std::string conninfo() const { return server().conninfo(name_); }
  const pg::Connector& connector() const { return connector_; }
  pg::Connection connect() const;

  /// The server of this test program. Tests that stop it start a PrivateServer of their own instead.
  static testserver::PrivateServer& server();

 private:
  Database(std::string name, const std::string& from_template);

  const std::string name_;
  const pg::Connector connector_;
};

}  // namespace ff::test
