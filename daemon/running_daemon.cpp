#include "running_daemon.hpp"

#include <fmt/format.h>

#include <iostream>
#include <stdexcept>

#include "base/printable.hpp"
#include "configuration.hpp"
#include "exit_codes.hpp"
#include "http_server.hpp"

namespace ff::daemon {
namespace {

constexpr Milliseconds kLongestAnswer{5000};

// "http://127.0.0.1:9464/" as http.listen has it; what is no such URL is left for that key to refuse.
std::string address_in(std::string url) {
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with(kScheme)) url.erase(0, kScheme.size());
  if (url.ends_with('/')) url.pop_back();
  return url;
}

}  // namespace

int ask_running_daemon(const Arguments& arguments,
                       const std::function<int(const nlohmann::ordered_json&)>& show) {
  std::vector<config::Override> overrides;
  if (const auto url = arguments.text("url")) overrides.push_back({"--url", "http.listen", address_in(*url)});
  const config::Http http = load_config(arguments.text("config"), std::move(overrides)).http;
  std::string body;
  int code = 0;
  try {
    code = http_get_status(reachable(http.host), static_cast<unsigned short>(http.port), "/status",
                           kLongestAnswer, &body);
  } catch (const std::runtime_error& error) {
    std::cerr << "ff-reconcilerd: " << error.what() << '\n';
    return kUnreachable;
  }
  try {
    if (code != 200) throw std::runtime_error(fmt::format("/status answers {}", code));
    return show(nlohmann::ordered_json::parse(body));
  } catch (const std::exception& error) {
    std::cerr << "ff-reconcilerd: that is no daemon of this version: " << printable(error.what()) << '\n';
    return kProblem;
  }
}

}  // namespace ff::daemon
