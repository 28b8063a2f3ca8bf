#include "pause/pause.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>

#include "base/duration.hpp"
#include "base/host_name.hpp"
#include "base/moment.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "check/replicas.hpp"
#include "check/ways.hpp"
#include "commands.hpp"
#include "configuration.hpp"
#include "exit_codes.hpp"
#include "grants.hpp"
#include "log.hpp"
#include "migrate/migrate.hpp"
#include "pasted.hpp"
#include "pause/release.hpp"
#include "reconcile/family/registry.hpp"
#include "reconcile/hold.hpp"
#include "way_to_lift.hpp"

namespace ff::daemon {
namespace {

constexpr std::size_t kLongestReason = 500;

// Of who typed it: behind sudo that is not the user whom the process runs as.
std::string user() {
  if (const char* caller = std::getenv("SUDO_USER"); caller != nullptr && *caller != '\0') return caller;
  const passwd* entry = ::getpwuid(::getuid());
  return entry != nullptr ? entry->pw_name : fmt::format("uid {}", ::getuid());
}

std::string user_and_machine() {
  const std::string host = host_name();
  return printable(user() + "@" + (host.empty() ? "?" : host));
}

/// As the table names them.
std::vector<std::string> reconcilers(const Arguments& arguments, const config::Config& config) {
  const auto found = named_reconcilers(arguments.words(), config);
  if (arguments.words().front() == "all") return {std::string(pause::kAll)};
  std::vector<std::string> names;
  names.reserve(found.size());
  for (const reconcile::Reconciler* each : found) names.emplace_back(each->name);
  return names;
}

std::string reason(const Arguments& arguments) {
  std::string text(trimmed(arguments.text("reason").value_or("")));
  if (text.empty()) throw UsageError("pause: --reason is missing: say why, for whoever finds it paused");
  if (text.size() > kLongestReason || invalid_utf8_at(text) || control_character_at(text, true))
    throw UsageError(fmt::format("--reason: {} is no line of at most {} bytes of UTF-8",
                                 printable(in_quotes(text), 40), kLongestReason));
  return text;
}

pause::Wish wish(const Arguments& arguments, const config::Config& config) {
  pause::Wish wish{reconcilers(arguments, config), user_and_machine(), reason(arguments)};
  const auto until = arguments.text("until");
  const auto length = arguments.text("for");
  if (until && length) throw UsageError("pause: --until or --for, not both");
  if (until) {
    wish.until = parse_moment(*until);
    if (!wish.until)
      throw UsageError("--until: " + in_quotes(*until) +
                       " is no time (allowed: 2026-11-24T06:00Z or 2026-11-24T06:00:00+01:00)");
    if (*wish.until > Clock::system().wall() + pause::kLongest)
      throw UsageError("--until: " + in_quotes(*until) + " is more than " + format_duration(pause::kLongest) +
                       " away");
  }
  if (length) {
    wish.lasting = parse_duration(*length);
    if (!wish.lasting || *wish.lasting < Milliseconds{1000} || *wish.lasting > pause::kLongest)
      throw UsageError("--for: " + in_quotes(*length) + " is no duration from 1s to " +
                       format_duration(pause::kLongest) + " (such as 90s, 30m, 2h, 7d)");
  }
  return wish;
}

/// Nothing: there is no such table, or it is not for this role, which is said.
std::optional<pause::Reading> readable(pg::Connection& connection) {
  pause::Reading reading = pause::read(connection);
  if (reading.table == pause::Reading::Table::readable) return reading;
  const bool missing = reading.table == pause::Reading::Table::missing;
  if (missing) migrate::refuse_if_elsewhere(connection);
  std::cerr << (missing
                    ? "ff-reconcilerd: table ff_reconciler_pause is missing: " + check::migrate_up_as_owner()
                    : "ff-reconcilerd: this role may not read ff_reconciler_pause; as the owner of the "
                      "tables: ff-reconcilerd migrate grants --role NAME")
            << '\n';
  return std::nullopt;
}

/// Connects, and sees that there is a table to write to. The exit code.
int with_table(const config::Config& config, const std::function<int(pg::Connection&)>& work) {
  set_up_log({config::LogLevel::error, config.log.format});
  const pg::Connector connector = make_connector(config.database);
  pg::Connection connection = connector.connect(Clock::system().now() + config.database.acquire_timeout);
  return readable(connection) ? work(connection) : kProblem;
}

// What else has to be lifted before they go on.
void print_others(const pause::Reading& reading, const std::vector<std::string>& names,
                  const Pasted& pasted) {
  for (const pause::Pause& pause : reading.in_force) {
    if (std::ranges::find(names, pause.reconciler) != names.end()) continue;
    const bool of_all = pause.reconciler == pause::kAll;
    if (!of_all && names.front() != pause::kAll) continue;
    std::cout << (of_all ? "still paused with all, "
                         : pause::subject_of(pause) + " is still paused by name, ")
              << pause::text_of(pause, reading.database_time) << "\n-> "
              << pasted(way_to_lift(pause.reconciler)) << '\n';
  }
}

// Their role would have to see it. What it may be granted is for the owner of the tables to say, and the pause stands
// meanwhile: whoever can read it is held, and they are as soon as they can.
bool is_seen_by_all(pg::Connection& connection) {
  const auto blind = check::roles_that_may_not_read(connection, pause::kTable);
  for (const std::string& role : blind)
    std::cerr
        << "ff-reconcilerd: replicas that connect as " << printable(role)
        << " do not see the pause and go on: they may not read ff_reconciler_pause; as the owner of the "
           "tables:\n"
        << statements(connection, grants(connection, needs_of_seeing_pauses()), role);
  return blind.empty();
}

int pause_them(pg::Connection& connection, const pause::Wish& wish, const Pasted& pasted) {
  if (!pause::pause(connection, wish)) {
    std::cerr << "ff-reconcilerd: --until: that is over, by the clock of the database\n";
    return kUsage;
  }
  const auto reading = readable(connection);
  if (!reading) return kProblem;
  for (const pause::Pause& pause : reading->in_force)
    if (std::ranges::find(wish.reconcilers, pause.reconciler) != wish.reconcilers.end())
      std::cout << fmt::format("{} paused {}\n", pause::subject_of(pause),
                               pause::text_of(pause, pause.since));
  const bool is_seen = is_seen_by_all(connection);
  std::cout << (is_seen
                    ? "no replica begins an act of theirs later than 6 s from now\n"
                    : "no other replica begins an act of theirs later than 6 s from now, nor those 6 s after "
                      "the grant\n");
  for (const pause::Pause& pause : reading->in_force)
    if (std::ranges::find(wish.reconcilers, pause.reconciler) != wish.reconcilers.end())
      std::cout << "-> " << pasted(way_to_lift(pause.reconciler)) << '\n';
  print_others(*reading, wish.reconcilers, pasted);
  return is_seen ? kDone : kProblem;
}

/// Those that may hold because of hold_above.
std::vector<std::string> that_may_hold(const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& name : names)
    if (name == pause::kAll || reconcile::may_hold(*reconcile::find_reconciler(name))) found.push_back(name);
  return found;
}

// Whether anything is held is known to the replicas alone, and one may come to it only soon: so it is written always.
int release_them(pg::Connection& connection, const std::vector<std::string>& names) {
  if (names.empty()) return kDone;
  if (pause::try_to_read_releases(connection).table == pause::Reading::Table::missing) {
    std::cerr << "ff-reconcilerd: what is held because of hold_above stays so: table ff_reconciler_release "
                 "is missing: "
              << check::migrate_up_as_owner() << '\n';
    return kProblem;
  }
  pause::release(connection, names, user_and_machine());
  for (const std::string& name : names)
    std::cout << pause::subject_of({.reconciler = name, .by = {}, .reason = {}, .until = {}})
              << ": what is held because of hold_above is released, from the next scan on\n";
  return kDone;
}

int resume_them(pg::Connection& connection, const std::vector<std::string>& names, const Pasted& pasted) {
  const auto lifted = pause::resume(connection, names);
  for (const std::string& name : names) {
    const bool was_paused = std::ranges::find(lifted, name) != lifted.end();
    const std::string subject = pause::subject_of({.reconciler = name, .by = {}, .reason = {}, .until = {}});
    std::cout << subject
              << (was_paused            ? ": the pause is lifted\n"
                  : name == pause::kAll ? ": there was no pause of all\n"
                                        : " was not paused by name\n");
  }
  const int released = release_them(connection, that_may_hold(names));
  const auto reading = readable(connection);
  if (!reading) return kProblem;
  print_others(*reading, names, pasted);
  return released;
}

}  // namespace

int pause_reconcilers(const Arguments& arguments) {
  const config::Config config = load_config(arguments);
  const pause::Wish wanted = wish(arguments, config);
  return with_table(
      config, [&](pg::Connection& connection) { return pause_them(connection, wanted, Pasted(arguments)); });
}

int resume_reconcilers(const Arguments& arguments) {
  const config::Config config = load_config(arguments);
  const auto names = reconcilers(arguments, config);
  return with_table(
      config, [&](pg::Connection& connection) { return resume_them(connection, names, Pasted(arguments)); });
}

}  // namespace ff::daemon
