#include <iostream>

#include "base/printable.hpp"
#include "commands.hpp"
#include "exit_codes.hpp"
#include "http_server.hpp"
#include "running_daemon.hpp"

namespace ff::daemon {

using namespace std::chrono_literals;
constexpr std::size_t kMostShown = 1000;  // of an answer, which may be anybody's

int healthcheck(const Arguments& arguments) {
  const DaemonUrl daemon = daemon_to_ask(arguments, "address");
  const std::string target = arguments.has("ready") ? "/readyz" : "/livez";
  try {
    std::string body;
    const int status = http_get_status(daemon.host, daemon.port, target, 2s, &body);
    if (status == 200) return kDone;
    std::cerr << "ff-reconcilerd: " << target << " answers " << status << ": " << printable(body, kMostShown)
              << '\n';
  } catch (const std::exception& error) {
    std::cerr << "ff-reconcilerd: " << error.what() << '\n';
  }
  return kProblem;
}

}  // namespace ff::daemon
