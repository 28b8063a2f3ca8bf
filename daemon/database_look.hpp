#pragma once

#include <functional>
#include <string>

#include "pg/pool.hpp"
#include "pg/server.hpp"
#include "supervisor/availability.hpp"

namespace ff::daemon {

/// Looks at the database for the supervisor's watch: can it be reached, does it take writes, is it the server
/// of before, and is its schema fit. The schema is verified when the server is a new one or was not fit. One
/// thread at a time.
class DatabaseLook {
 public:
  using OnError = std::function<void(const pg::Error&)>;

  /// `on_doubt` is called before a connection that broke is replaced: until this look is over, nobody should
  /// act on what may be another server.
  DatabaseLook(pg::Pool& pool, OnError on_error, std::function<void()> on_doubt)
      : pool_(pool), on_error_(std::move(on_error)), on_doubt_(std::move(on_doubt)) {}

  supervisor::Observation operator()();

 private:
  supervisor::Observation look();
  static std::optional<pg::ServerInfo> ask(pg::PooledConnection& connection);
  void verify_schema(pg::Connection& connection, supervisor::Observation& seen);

  pg::Pool& pool_;
  const OnError on_error_;
  const std::function<void()> on_doubt_;
  std::optional<UnixMillis> verified_on_;  // the start of the server whose schema was found fit
  int schema_version_ = 0;
};

}  // namespace ff::daemon
