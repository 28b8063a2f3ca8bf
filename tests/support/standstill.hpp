#pragma once

#include <sys/types.h>

#include <set>
#include <vector>

#include "testserver/private_server.hpp"

namespace ff::test {

/// The processes that this one has started.
std::vector<pid_t> children_of(pid_t process);

/// All processes of a server, stopped in the middle of whatever they do for as long as this lives. Those of `last`
/// go on a second after the others: somebody always comes last.
class Standstill {
 public:
  /// Throws std::runtime_error when it does not run.
  explicit Standstill(testserver::PrivateServer& server, std::set<pid_t> last = {});
  /// The same for any server, by its postmaster.
  explicit Standstill(pid_t postmaster, std::set<pid_t> last = {});
  ~Standstill();
  Standstill(const Standstill&) = delete;
  Standstill& operator=(const Standstill&) = delete;

 private:
  const pid_t postmaster_;
  const std::set<pid_t> last_;
  std::vector<pid_t> children_;
};

}  // namespace ff::test
