#include <iostream>

#include "commands.hpp"
#include "configuration.hpp"
#include "exit_codes.hpp"
#include "http_server.hpp"

namespace ff::daemon {

using namespace std::chrono_literals;

int healthcheck(const Arguments& arguments) {
  std::vector<config::Override> overrides;
  if (const auto address = arguments.text("address"))
    overrides.push_back({"--address", "http.listen", *address});
  const std::string target = arguments.has("ready") ? "/readyz" : "/livez";
  const config::Http http = load_config(arguments.text("config"), std::move(overrides)).http;
  try {
    std::string body;
    const int status =
        http_get_status(reachable(http.host), static_cast<unsigned short>(http.port), target, 2s, &body);
    if (status == 200) return kDone;
    std::cerr << "ff-reconcilerd: " << target << " answers " << status << ": " << body;
  } catch (const std::exception& error) {
    std::cerr << "ff-reconcilerd: " << error.what() << '\n';
  }
  return kProblem;
}

}  // namespace ff::daemon
