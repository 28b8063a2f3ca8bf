#include "running_daemon.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <stdexcept>

#include "base/printable.hpp"
#include "configuration.hpp"
#include "exit_codes.hpp"
#include "http_server.hpp"

namespace ff::daemon {
namespace {

using nlohmann::ordered_json;

constexpr Milliseconds kLongestAnswer{5000};
constexpr Milliseconds kLongestAnswerForMore{1000};

// A status has a row's holders in a list in a row in a list in a reconciler in a list. What is nested for ever takes the
// stack of whoever copies or prints it, and a number that no integer can hold is nobody's.
constexpr int kDeepest = 16;
constexpr double kLargest = 9e18;

ordered_json status_in(const std::string& body) {
  return ordered_json::parse(body, [](int depth, ordered_json::parse_event_t event, ordered_json& parsed) {
    if (depth > kDeepest) throw std::runtime_error("its answer is nested too deeply");
    if (event == ordered_json::parse_event_t::value && parsed.is_number_float() &&
        std::abs(parsed.get<double>()) > kLargest)
      throw std::runtime_error("its answer has a number that is too large");
    return true;
  });
}

}  // namespace

DaemonUrl daemon_to_ask(const Arguments& arguments, const std::string& option) {
  std::optional<DaemonUrl> given;
  if (const auto url = arguments.text(option)) given = parse_daemon_url(option, *url);
  const config::Http http = load_config(arguments.text("config"), {}).http;
  DaemonUrl url = given.value_or(DaemonUrl{http.host, static_cast<unsigned short>(http.port)});
  url.host = reachable(url.host);
  return url;
}

std::optional<ordered_json> try_to_ask_running_daemon(const Arguments& arguments) {
  const DaemonUrl url = daemon_to_ask(arguments, "url");
  try {
    std::string body;
    const int code = http_get_status(url.host, url.port, "/status", kLongestAnswerForMore, &body);
    if (code != 200) throw std::runtime_error(fmt::format("/status answers {}", code));
    auto status = status_in(body);
    if (status.contains("reconcilers")) return status;
    throw std::runtime_error("that is no daemon of this version");
  } catch (const std::exception& error) {
    if (arguments.text("url"))
      std::cerr << "ff-reconcilerd: what is in quarantine is not known: " << printable(error.what()) << '\n';
    return std::nullopt;
  }
}

int ask_running_daemon(const Arguments& arguments, const std::function<int(const ordered_json&)>& show) {
  const DaemonUrl url = daemon_to_ask(arguments, "url");
  std::string body;
  int code = 0;
  try {
    code = http_get_status(url.host, url.port, "/status", kLongestAnswer, &body);
  } catch (const std::runtime_error& error) {
    std::cerr << "ff-reconcilerd: " << error.what() << '\n';
    return kUnreachable;
  }
  try {
    if (code != 200) throw std::runtime_error(fmt::format("/status answers {}", code));
    return show(status_in(body));
  } catch (const std::exception& error) {
    std::cerr << "ff-reconcilerd: that is no daemon of this version: " << printable(error.what()) << '\n';
    return kProblem;
  }
}

}  // namespace ff::daemon
