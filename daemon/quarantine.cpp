#include <fmt/format.h>

#include <iostream>

#include "base/duration.hpp"
#include "base/printable.hpp"
#include "commands.hpp"
#include "exit_codes.hpp"
#include "pasted.hpp"
#include "reconcile/family/registry.hpp"
#include "report_json.hpp"
#include "running_daemon.hpp"

namespace ff::daemon {
namespace {

using namespace std::chrono_literals;
using nlohmann::ordered_json;

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

std::string text_of(const ordered_json& row, const Pasted& pasted) {
  const auto next_try = unix_millis(row.at("next_try_ms").get<std::int64_t>());
  const auto left = next_try - Clock::system().wall();
  std::string text = fmt::format(
      "{:<26}partition {} {}\n{:<26}failed {}, {}: {}\n", printable(row.at("reconciler").get<std::string>()),
      row.at("partition").get<int>(), printable(row.at("key").dump()), "",
      row.at("tries") == 1 ? "once" : fmt::format("{} times", row.at("tries").get<int>()),
      left > 0ms ? "next try in " + spoken_duration(left) : std::string("tried at the next scan"),
      printable(row.at("message").get<std::string>()));
  // Nobody else knows what this daemon has set aside, so `tick` tries that, too. The line is for pasting: of an answer
  // that is no daemon's nothing gets into it.
  const reconcile::Reconciler* its = reconcile::find_reconciler(row.at("reconciler").get<std::string>());
  if (its == nullptr) return text;
  std::string again = fmt::format("ff-reconcilerd tick {}", its->name);
  if (row.at("execution").is_string()) {
    const auto execution = parse_execution_id(row.at("execution").get<std::string>());
    if (!execution) return text;
    again += fmt::format(" --execution '{}'", to_string(*execution));
  }
  return text + fmt::format("{:<26}-> {}\n", "", pasted(again));
}

void print(const ordered_json& status, bool json, const Pasted& pasted) {
  const ordered_json rows = rows_in(status);
  for (const ordered_json& row : rows) std::cout << (json ? dump(row) + "\n" : text_of(row, pasted));
  std::size_t in_all = 0;
  for (const ordered_json& reconciler : status.at("reconcilers"))
    in_all += reconciler.at("quarantined").get<std::size_t>();
  if (json) return;
  if (in_all == 0) std::cout << "no row is in quarantine\n";
  if (in_all > rows.size()) std::cout << fmt::format("and {} more\n", in_all - rows.size());
}

}  // namespace

int quarantine(const Arguments& arguments) {
  return ask_running_daemon(arguments, [&](const ordered_json& status) {
    print(status, arguments.has("json"), Pasted(arguments));
    return kDone;
  });
}

}  // namespace ff::daemon
