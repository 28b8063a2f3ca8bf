#pragma once

#include <functional>
#include <string>

#include "pg/pool.hpp"
#include "supervisor/availability.hpp"

namespace ff::daemon {

/// Looks at the database for the supervisor's watch: can it be reached, does it take writes, is it the server
/// of before, and is its schema fit. The schema is verified when the server is a new one or was not fit. One
/// thread at a time.
class DatabaseLook {
 public:
  using OnError = std::function<void(const pg::Error&)>;

  explicit DatabaseLook(pg::Pool& pool, OnError on_error) : pool_(pool), on_error_(std::move(on_error)) {}

  supervisor::Observation operator()();

 private:
  supervisor::Observation look();
  void verify_schema(pg::Connection& connection, supervisor::Observation& seen);

  pg::Pool& pool_;
  const OnError on_error_;
  std::optional<UnixMillis> verified_on_;  // the start of the server whose schema was found fit
  int schema_version_ = 0;
};

}  // namespace ff::daemon
