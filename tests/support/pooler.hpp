#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "support/process.hpp"
#include "testserver/private_server.hpp"

namespace ff::test {

/// PgBouncer in front of a server on this machine, which it reaches as the superuser unless told otherwise. It listens on a
/// Unix socket in a directory of its own, and gives each statement or transaction the session that has rested longest, so that
/// clients meet each other's sessions as often as can be.
class Pooler {
 public:
  /// `mode`: its pool_mode; `role`: as whom all of its clients are taken. Throws std::runtime_error with what it said when it does
  /// not start.
  Pooler(const testserver::PrivateServer& server, std::string_view mode,
         const std::string& role = "postgres");

  /// What has to be appended to the server's own conninfo to go through it.
  std::string detour() const;

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<Process> process_;
};

}  // namespace ff::test
