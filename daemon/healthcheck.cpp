#include <iostream>

#include "commands.hpp"
#include "exit_codes.hpp"
#include "http_server.hpp"
#include "running_daemon.hpp"

namespace ff::daemon {

using namespace std::chrono_literals;

int healthcheck(const Arguments& arguments) {
  const DaemonUrl daemon = daemon_to_ask(arguments, "address");
  const std::string target = arguments.has("ready") ? "/readyz" : "/livez";
  try {
    std::string body;
    const int status = http_get_status(daemon.host, daemon.port, target, 2s, &body);
    if (status == 200) return kDone;
    std::cerr << "ff-reconcilerd: " << target << " answers " << status << ": " << body;
  } catch (const std::exception& error) {
    std::cerr << "ff-reconcilerd: " << error.what() << '\n';
  }
  return kProblem;
}

}  // namespace ff::daemon
