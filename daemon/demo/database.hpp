#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "config/config.hpp"
#include "pg/connect.hpp"
#include "testserver/private_server.hpp"

namespace ff::daemon {

/// The database that was given cannot be used for the demo; the message says why, and what to do.
class DatabaseUnfit : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Where the demo takes place: a private server that goes with the object, or a database that was given and
/// stays. Either has our schema once this is made. To be made on the main thread (see PrivateServer).
class DemoDatabase {
 public:
  /// Tells what it does in one line each. Throws UsageError, DatabaseUnfit, pg::Error, std::runtime_error.
  DemoDatabase(std::optional<std::string> url, const std::function<void(const std::string&)>& tell);

  const config::Database& config() const { return config_; }
  bool is_private() const { return server_.has_value(); }
  /// A given database that had no schema has one now.
  bool was_empty() const { return was_empty_; }
  /// Where it is, for people, without a password.
  const std::string& description() const { return description_; }
  const pg::Connector& connector() const { return *connector_; }

 private:
  void make_schema(pg::Connection& connection, const std::function<void(const std::string&)>& tell);

  std::optional<testserver::PrivateServer> server_;
  config::Database config_;
  std::unique_ptr<const pg::Connector> connector_;
  std::string description_;
  bool was_empty_ = false;
};

}  // namespace ff::daemon
