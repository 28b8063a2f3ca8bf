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

std::vector<pid_t> children_of(pid_t process) {
  const std::string number = std::to_string(process);
  std::ifstream list("/proc/" + number + "/task/" + number + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; list >> child;) children.push_back(child);
  return children;
}

Standstill::Standstill(testserver::PrivateServer& server, std::set<pid_t> last)
    : Standstill(pid_of(server), std::move(last)) {}

Standstill::Standstill(pid_t postmaster, std::set<pid_t> last)
    : postmaster_(postmaster), last_(std::move(last)) {
  ::kill(postmaster_, SIGSTOP);  // first: it starts no further ones
  children_ = children_of(postmaster_);
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
