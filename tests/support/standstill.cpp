#include "support/standstill.hpp"

#include <csignal>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace ff::test {
namespace {

using namespace std::chrono_literals;

pid_t pid_of(testserver::PrivateServer& server) {
  const auto pid = server.pid();
  if (!pid) throw std::runtime_error("a server that does not run cannot be stopped");
  return *pid;
}

}  // namespace

Standstill::Standstill(testserver::PrivateServer& server, std::set<pid_t> last)
    : postmaster_(pid_of(server)), last_(std::move(last)) {
  ::kill(postmaster_, SIGSTOP);  // first: it starts no further ones
  std::ifstream list("/proc/" + std::to_string(postmaster_) + "/task/" + std::to_string(postmaster_) +
                     "/children");
  for (pid_t child = 0; list >> child;) children_.push_back(child);
  for (const pid_t child : children_) ::kill(child, SIGSTOP);
}

Standstill::~Standstill() {
  ::kill(postmaster_, SIGCONT);
  for (const pid_t child : children_)
    if (!last_.contains(child)) ::kill(child, SIGCONT);
  if (!last_.empty()) std::this_thread::sleep_for(1s);
  for (const pid_t child : last_) ::kill(child, SIGCONT);
}

}  // namespace ff::test
