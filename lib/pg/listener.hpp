#pragma once

#include <set>
#include <string>
#include <vector>

#include "pg/connection.hpp"
#include "pg/wake.hpp"

namespace ff::pg {

/// A session that hears the notifications of some channels and runs statements as well. A notification is a
/// hint that something happened, no more: several may be heard as one, and behind a pooler in transaction
/// mode none ever comes. One thread at a time.
class Listener {
 public:
  explicit Listener(Connection connection) : connection_(std::move(connection)) {}

  /// Hears these channels from now on. A channel is an identifier of lower-case letters, digits and
  /// underscores; it is not quoted. Throws Error.
  void listen(const std::vector<std::string>& channels);

  Connection& connection() { return connection_; }

  /// Waits until a notification has come, `wake` is raised (and takes it back) or the time is up. Returns
  /// the channels that were heard. Throws Error: of kind connection when the session has ended, interrupted
  /// when the connection's interrupt is raised.
  std::set<std::string> wait(SteadyTime until, Wake& wake);

  /// Whether a notification that `other` sends arrives here in time. Others that come meanwhile are
  /// forgotten. Throws as wait().
  bool hears(Connection& other, SteadyTime until, Wake& wake);

 private:
  std::set<std::string> take_notifications();

  Connection connection_;
};

}  // namespace ff::pg
