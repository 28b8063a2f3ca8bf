#include <fmt/format.h>

#include <iostream>

#include "base/duration.hpp"
#include "base/printable.hpp"
#include "commands.hpp"
#include "configuration.hpp"
#include "exit_codes.hpp"
#include "http_server.hpp"
#include "report_json.hpp"

namespace ff::daemon {
namespace {

using namespace std::chrono_literals;
using nlohmann::ordered_json;

// "http://127.0.0.1:9464/" as http.listen has it; what is no such URL is left for that key to refuse.
std::string address_in(std::string url) {
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with(kScheme)) url.erase(0, kScheme.size());
  if (url.ends_with('/')) url.pop_back();
  return url;
}

/// Every row that the daemon tells of, each with the reconciler that has set it aside.
ordered_json rows_in(const ordered_json& status) {
  auto rows = ordered_json::array();
  for (const ordered_json& reconciler : status.at("reconcilers"))
    for (const ordered_json& row : reconciler.at("quarantine")) {
      ordered_json line{{"reconciler", reconciler.at("reconciler")}};
      line.update(row);
      rows.push_back(std::move(line));
    }
  return rows;
}

std::string text_of(const ordered_json& row) {
  const auto next_try = unix_millis(row.at("next_try_ms").get<std::int64_t>());
  const auto left = next_try - Clock::system().wall();
  std::string text = fmt::format(
      "{:<26}partition {} {}\n{:<26}failed {}, {}: {}\n", printable(row.at("reconciler").get<std::string>()),
      row.at("partition").get<int>(), dump(row.at("key")), "",
      row.at("tries") == 1 ? "once" : fmt::format("{} times", row.at("tries").get<int>()),
      left > 0ms ? "next try in " + spoken_duration(left) : std::string("tried at the next scan"),
      printable(row.at("message").get<std::string>()));
  if (row.at("execution").is_string())
    text += fmt::format("{:<26}-> ff-reconcilerd tick {} --execution '{}'\n", "",
                        printable(row.at("reconciler").get<std::string>()),
                        printable(row.at("execution").get<std::string>()));
  return text;
}

void print(const ordered_json& status, bool json) {
  const ordered_json rows = rows_in(status);
  for (const ordered_json& row : rows) std::cout << (json ? dump(row) + "\n" : text_of(row));
  std::size_t in_all = 0;
  for (const ordered_json& reconciler : status.at("reconcilers"))
    in_all += reconciler.at("quarantined").get<std::size_t>();
  if (json) return;
  if (in_all == 0) std::cout << "no row is in quarantine\n";
  if (in_all > rows.size()) std::cout << fmt::format("and {} more\n", in_all - rows.size());
}

}  // namespace

int quarantine(const Arguments& arguments) {
  std::vector<config::Override> overrides;
  if (const auto url = arguments.text("url")) overrides.push_back({"--url", "http.listen", address_in(*url)});
  const config::Http http = load_config(arguments.text("config"), std::move(overrides)).http;
  std::string body;
  int code = 0;
  try {
    code =
        http_get_status(reachable(http.host), static_cast<unsigned short>(http.port), "/status", 5s, &body);
  } catch (const std::runtime_error& error) {
    std::cerr << "ff-reconcilerd: " << error.what() << '\n';
    return kUnreachable;
  }
  try {
    if (code != 200) throw std::runtime_error(fmt::format("/status answers {}", code));
    print(ordered_json::parse(body), arguments.has("json"));
  } catch (const std::exception& error) {
    std::cerr << "ff-reconcilerd: that is no daemon of this version: " << printable(error.what()) << '\n';
    return kProblem;
  }
  return kDone;
}

}  // namespace ff::daemon
