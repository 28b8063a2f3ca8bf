#include "audit/audit.hpp"

#include <fmt/format.h>

#include <iostream>
#include <set>
#include <thread>

#include "base/printable.hpp"
#include "commands.hpp"
#include "config/problem.hpp"
#include "configuration.hpp"
#include "exit_codes.hpp"
#include "log.hpp"
#include "migrate/migrate.hpp"
#include "pasted.hpp"
#include "report_json.hpp"

namespace ff::daemon {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kRowsShown = 20;
constexpr std::int64_t kMostRowsShown = 1'000'000;
// Nobody who asks waits for longer than this, however seldom a reconciler is configured to scan.
constexpr Milliseconds kLongestInterval{15'000};
constexpr Milliseconds kForItsTick{3'000};

// Of each space the partitions that are chosen, as daemons share them out.
audit::Spaces chosen(audit::Spaces all, const std::optional<Partitions>& named,
                     const config::Config& config) {
  const PartitionChoice choice = named ? PartitionChoice{*named} : config.partitions;
  const Coverage flows = cover(choice, static_cast<int>(all.flows.size()));
  if (const std::string reason = reason_against(flows); !reason.empty()) {
    if (named) throw UsageError("--partitions: " + reason);
    throw config::Invalid({{"", 0, "partitions", format_choice(config.partitions), reason}});
  }
  all.flows = flows.covered;
  for (Partitions* space : {&all.budgets, &all.quotas, &all.workers})
    *space = cover(choice, static_cast<int>(space->size())).covered;
  return all;
}

struct Sums {
  std::int64_t checks = 0;
  std::int64_t found = 0;
  std::int64_t rows = 0;
  std::int64_t not_made = 0;  // or not over all partitions
};

Sums sums_of(const audit::Report& report) {
  Sums sums;
  for (const audit::Sweep& sweep : audit::sweeps())
    sums.checks += static_cast<std::int64_t>(sweep.checks.size());
  sums.found = static_cast<std::int64_t>(report.verdicts.size());
  for (const audit::Verdict& verdict : report.verdicts)
    sums.rows += static_cast<std::int64_t>(verdict.rows.size()) + verdict.more;
  std::set<std::string_view> told;  // the same checks may fail in two ways
  for (const audit::Omission& omission : report.omissions)
    if (told.insert(omission.checks).second) sums.not_made += static_cast<std::int64_t>(omission.count);
  return sums;
}

// A line to paste: half of it would do something else.
std::string whole(const std::string& line) {
  return printable(line, line.size());
}

std::string counted(std::int64_t number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::size_t shown_of(const audit::Verdict& verdict, std::int64_t limit) {
  return std::min(verdict.rows.size(), static_cast<std::size_t>(limit));
}

std::int64_t more_of(const audit::Verdict& verdict, std::size_t shown) {
  return static_cast<std::int64_t>(verdict.rows.size() - shown) + verdict.more;
}

std::string last_line(const Sums& sums, std::int64_t partitions) {
  std::string text = sums.found > 0 ? fmt::format("{} found by {} of ", counted(sums.rows, "row"), sums.found)
                     : sums.not_made > 0 ? fmt::format("nothing found by {} of ", sums.checks - sums.not_made)
                                         : std::string("nothing found by ");
  text += fmt::format("{} checks over {}", sums.checks, counted(partitions, "partition"));
  if (sums.not_made > 0) text += fmt::format("; {} could not be made", sums.not_made);
  return text + '\n';
}

void print_text(const audit::Report& report, std::int64_t limit, std::int64_t partitions,
                const Pasted& pasted) {
  for (const audit::Verdict& verdict : report.verdicts) {
    std::cout << fmt::format("{}: {}\n", verdict.check->name, verdict.check->meaning);
    const std::size_t shown = shown_of(verdict, limit);
    for (std::size_t i = 0; i < shown; ++i) {
      const audit::Finding& row = verdict.rows[i];
      std::cout << fmt::format("  {}  {}\n    -> {}\n", printable(row.key), printable(row.what),
                               whole(pasted(row.remedy)));
    }
    if (const auto more = more_of(verdict, shown); more > 0)
      std::cout << fmt::format("  and {} more\n", more);
    std::cout << '\n';
  }
  for (const audit::Omission& omission : report.omissions)
    std::cout << fmt::format(
        "NOT CHECKED: {}{}: {}\n", omission.checks,
        omission.partitions.empty() ? "" : ", partitions " + format_partitions(omission.partitions),
        printable(omission.error));
  std::cout << last_line(sums_of(report), partitions);
}

void print_json(const audit::Report& report, std::int64_t limit, const Partitions& partitions,
                const Pasted& pasted) {
  for (const audit::Verdict& verdict : report.verdicts) {
    auto rows = ordered_json::array();
    const std::size_t shown = shown_of(verdict, limit);
    for (std::size_t i = 0; i < shown; ++i) {
      const audit::Finding& row = verdict.rows[i];
      rows.push_back({{"partition", row.partition.value},
                      {"key", printable(row.key)},
                      {"what", printable(row.what)},
                      {"remedy", whole(pasted(row.remedy))}});
    }
    std::cout << dump({{"check", verdict.check->name},
                       {"meaning", verdict.check->meaning},
                       {"rows", rows},
                       {"more", more_of(verdict, shown)}})
              << '\n';
  }
  for (const audit::Omission& omission : report.omissions)
    std::cout << dump({{"not_checked", omission.checks},
                       {"partitions", format_partitions(omission.partitions)},
                       {"error", printable(omission.error)}})
              << '\n';
  const Sums sums = sums_of(report);
  std::cout << dump({{"checks", sums.checks},
                     {"partitions", format_partitions(partitions)},
                     {"found", sums.found},
                     {"rows", sums.rows},
                     {"not_checked", sums.not_made}})
            << '\n';
}

// Until when whoever moves what was found has come by, if a daemon with this configuration is at work.
Milliseconds until_confirmed(const audit::Audit& audit, const config::Config& config) {
  Milliseconds wait = audit::Audit::kBetween;
  const auto concerned = audit.reconcilers_concerned();
  for (const config::Reconciler& reconciler : config.reconcilers)
    if (reconciler.enabled && concerned.contains(reconciler.name))
      wait = std::max(wait, std::min(reconciler.interval, kLongestInterval) + kForItsTick);
  return wait;
}

}  // namespace

int audit_database(const Arguments& arguments) {
  const config::Config config = load_config(arguments);
  const auto named = arguments.partitions();
  const std::int64_t limit = arguments.number("limit", 0, kMostRowsShown).value_or(kRowsShown);
  set_up_log({config::LogLevel::error, config.log.format});
  const pg::Connector connector = make_connector(for_reading(config.database));
  pg::Pool pool(connector, 1, config.database.acquire_timeout);
  audit::Spaces spaces;
  audit::Report report;
  {  // whoever reads the report holds no session
    auto connection = pool.acquire();
    migrate::flow_partitions(*connection);  // refuses numbers that nobody can work with
    spaces = chosen(audit::all_spaces(*connection), named, config);
    audit::Audit audit(*connection, spaces);
    if (!audit.check()) {
      std::this_thread::sleep_for(until_confirmed(audit, config));
      report = audit.confirm();
    }
  }
  if (arguments.has("json"))
    print_json(report, limit, spaces.flows, Pasted(arguments));
  else
    print_text(report, limit, static_cast<std::int64_t>(spaces.flows.size()), Pasted(arguments));
  return report.verdicts.empty() && report.omissions.empty() ? kDone : kProblem;
}

}  // namespace ff::daemon
