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
constexpr Milliseconds kLongestAnswerForMore{1000};

// "http://127.0.0.1:9464/" as http.listen has it; what is no such URL is left for that key to refuse.
std::string address_in(std::string url) {
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with(kScheme)) url.erase(0, kScheme.size());
  if (url.ends_with('/')) url.pop_back();
  return url;
}

config::Http address_of(const Arguments& arguments) {
  std::vector<config::Override> overrides;
  if (const auto url = arguments.text("url")) overrides.push_back({"--url", "http.listen", address_in(*url)});
  return load_config(arguments.text("config"), std::move(overrides)).http;
}

}  // namespace

std::optional<nlohmann::ordered_json> try_to_ask_running_daemon(const Arguments& arguments) {
  const config::Http http = address_of(arguments);
  try {
    std::string body;
    const int code = http_get_status(reachable(http.host), static_cast<unsigned short>(http.port), "/status",
                                     kLongestAnswerForMore, &body);
    if (code != 200) throw std::runtime_error(fmt::format("/status answers {}", code));
    auto status = nlohmann::ordered_json::parse(body);
    if (status.contains("reconcilers")) return status;
    throw std::runtime_error("that is no daemon of this version");
  } catch (const std::exception& error) {
    if (arguments.text("url"))
      std::cerr << "ff-reconcilerd: what is in quarantine is not known: " << printable(error.what()) << '\n';
    return std::nullopt;
  }
}

int ask_running_daemon(const Arguments& arguments,
                       const std::function<int(const nlohmann::ordered_json&)>& show) {
  const config::Http http = address_of(arguments);
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
