#pragma once

#include <string>

#include "pg/connection.hpp"
#include "pg/wake.hpp"

namespace ff::pg {

/// A session that hears the notifications of one channel and runs statements as well. A notification is a
/// hint that something happened, no more: several may be heard as one, and behind a pooler in transaction
/// mode none ever comes. One thread at a time.
class Listener {
 public:
  /// `channel` is an identifier of lower-case letters, digits and underscores; it is not quoted. Throws
  /// Error.
  Listener(Connection connection, const std::string& channel);

  Connection& connection() { return connection_; }

  /// Waits until a notification has come, `wake` is raised (and takes it back) or the time is up. Throws
  /// Error: of kind connection when the session has ended, interrupted when the connection's interrupt is
  /// raised.
  void wait(SteadyTime until, Wake& wake);

 private:
  bool take_notifications();

  Connection connection_;
};

}  // namespace ff::pg
