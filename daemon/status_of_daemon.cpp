#include "status_of_daemon.hpp"

#include <fmt/format.h>

#include "base/printable.hpp"
#include "explain/words.hpp"
#include "page/markup.hpp"
#include "pause/pause.hpp"
#include "reconcile/holders.hpp"
#include "storm_report.hpp"
#include "way_to_lift.hpp"

namespace ff::daemon {
namespace {

using nlohmann::ordered_json;

std::string shown(const ordered_json& text) {
  return printable(text.get<std::string>());
}

// "3.2 s ago", "in 12 s", "-"
std::string moment_of(const ordered_json& at_ms, UnixMillis now) {
  return at_ms.is_null() ? "-" : explain::when(unix_millis(at_ms.get<std::int64_t>()), now);
}

// "14:03:27 UTC, in 12 s"; of another day "2026-11-29 14:03:27 UTC, in 3 d"
std::string clock_time_of(const ordered_json& at_ms, UnixMillis now) {
  const UnixMillis at = unix_millis(at_ms.get<std::int64_t>());
  const bool is_today =
      std::chrono::floor<std::chrono::days>(at) == std::chrono::floor<std::chrono::days>(now);
  return fmt::format("{} UTC, {}", is_today ? page::clock_text(at) : page::date_text(at),
                     moment_of(at_ms, now));
}

std::string number_of(const ordered_json& number) {
  return number.is_null() ? "-" : std::to_string(number.get<std::int64_t>());
}

// A daemon that is ready has looked; an older one says 0.
std::string version_of(const ordered_json& status) {
  const ordered_json& version = status.at("schema_version");
  if (!version.is_null() && version.get<int>() > 0) return "version " + number_of(version);
  const ordered_json& state = status.at("state");
  return state == "ready" || state == "recovering" ? "version not for the daemon's role to read"
                                                   : "version not known";
}

// Lines for pasting are written here and not taken from the answer, whoever gave it.
std::string head(const ordered_json& status, UnixMillis now, const Pasted& pasted) {
  std::string text = fmt::format("daemon    {}, started {}\n", shown(status.at("state")),
                                 moment_of(status.at("started_at_ms"), now));
  if (const std::string reason = shown(status.at("reason")); !reason.empty())
    text += "          " + reason + '\n';
  if (const ordered_json& until = status.at("recovering_until_ms"); !until.is_null())
    text += fmt::format("          no lease is taken before {}\n", clock_time_of(until, now));
  text += "schema    " + version_of(status) + '\n';
  if (const ordered_json& partitions = status.at("partitions"); partitions.is_object())
    text += fmt::format("covers    partitions {} of {}\n", shown(partitions.at("covered")),
                        partitions.at("count").get<int>());
  const ordered_json& pool = status.at("pool");
  text += fmt::format("pool      {} of {} connections in use, {} idle, {} waiting for one\n",
                      number_of(pool.at("in_use")), number_of(pool.at("size")), number_of(pool.at("idle")),
                      number_of(pool.at("waiting")));
  if (const auto storm = status.find("storm"); storm != status.end()) text += storm_text(*storm);
  for (const ordered_json& pause : status.at("pauses"))
    text += fmt::format(
        "paused    {} by {}: {}\n          since {}, until {} -> {}\n",
        pause.at("reconciler") == "*" ? "all reconcilers" : shown(pause.at("reconciler")),
        shown(pause.at("by")), shown(pause.at("reason")), moment_of(pause.at("since_ms"), now),
        pause.at("until_ms").is_null() ? "it is resumed" : clock_time_of(pause.at("until_ms"), now),
        pasted(way_to_lift(pause.at("reconciler").get<std::string>())));
  if (const auto unread = status.find("pauses_unread"); unread != status.end() && unread->is_string())
    text += "paused    not known: " + shown(*unread) + '\n';
  return text;
}

bool is_held(const ordered_json& reconciler) {
  const ordered_json hold = reconciler.value("hold", ordered_json());
  return hold.is_object() && !hold.at("released").get<bool>();
}

std::optional<UnixMillis> at_of(const ordered_json& at_ms) {
  return at_ms.is_null() ? std::nullopt : std::optional(unix_millis(at_ms.get<std::int64_t>()));
}

// Who is in the way of a row, and how long we have known it.
std::string held_row_text(const ordered_json& row, UnixMillis now) {
  const std::string name =
      row.at("execution").is_string()
          ? shown(row.at("execution"))
          : fmt::format("partition {} {}", row.at("partition").get<int>(), printable(row.at("key").dump()));
  std::string by;
  for (const ordered_json& holder : row.at("holders")) {
    const reconcile::Holder who{.table = shown(holder.at("table")),
                                .pid = holder.at("pid").is_null() ? 0 : holder.at("pid").get<int>(),
                                .application = shown(holder.at("application")),
                                .state = holder.at("state").is_null() ? "" : shown(holder.at("state")),
                                .since = at_of(holder.value("since_ms", ordered_json()))};
    by += (by.empty() ? "" : ", ") + explain::who(who, now) + " in " + who.table;
  }
  // A reclaim that was promised keeps it as well, which no lock shows.
  if (by.empty())
    return fmt::format(
        "          {} is passed over, first seen {}: locked by somebody who is not to be seen, or "
        "promised to a worker\n",
        name, moment_of(row.at("held_since_ms"), now));
  return fmt::format("          {} is locked by {}, first seen {}\n", name, by,
                     moment_of(row.at("held_since_ms"), now));
}

// "lease_expiry", "lease_expiry (off)", "lease_expiry (paused)", "execution_deadline (held)"
std::string title(const ordered_json& reconciler) {
  const std::string name = shown(reconciler.at("reconciler"));
  if (!reconciler.at("enabled").get<bool>()) return name + " (off)";
  return name + (reconciler.at("paused").get<bool>() ? " (paused)" : is_held(reconciler) ? " (held)" : "");
}

std::string hold_text(const ordered_json& reconciler, UnixMillis now, const Pasted& pasted) {
  const ordered_json hold = reconciler.value("hold", ordered_json());
  if (!hold.is_object()) return "";
  const std::string above = number_of(hold.at("above"));
  if (!is_held(reconciler))
    return fmt::format("          released by an operator, until no more than {} rows are due\n", above);
  return fmt::format("          more than {} rows are due (hold_above): none is moved, begun {} -> {}\n",
                     above, moment_of(hold.at("since_ms"), now),
                     pasted(way_to_release(reconciler.at("reconciler").get<std::string>())));
}

// "in 12 s", "now", "none for 20 s", "unknown"; "-" of one that is off or paused
std::string next_due_of(const ordered_json& reconciler, UnixMillis now) {
  if (!reconciler.at("enabled").get<bool>() || reconciler.at("paused").get<bool>()) return "-";
  return explain::next(at_of(reconciler.at("next_due_ms")), at_of(reconciler.at("next_due_known_until_ms")),
                       now);
}

// "12", "1+": at least one more, and nobody has counted them
std::string left_of(const ordered_json& reconciler) {
  return number_of(reconciler.at("due")) + (reconciler.at("due_capped").get<bool>() ? "+" : "");
}

std::string row(const ordered_json& reconciler, UnixMillis now, const Pasted& pasted) {
  std::string text = fmt::format(
      "{:<34}{:>10}  {:>14}  {:>16}  {:>14}{:>12}{:>9}{:>12}\n", title(reconciler), left_of(reconciler),
      moment_of(reconciler.at("oldest_due_ms"), now), next_due_of(reconciler, now),
      moment_of(reconciler.at("last_tick_ms"), now), number_of(reconciler.at("processed_total")),
      number_of(reconciler.at("errors_total")), number_of(reconciler.at("quarantined")));
  if (const ordered_json& tick = reconciler.at("running"); tick.is_object())
    text += fmt::format("          a tick is running, begun {}: {} rows moved so far\n",
                        moment_of(tick.at("since_ms"), now), number_of(tick.at("processed")));
  text += hold_text(reconciler, now, pasted);
  if (reconciler.at("consecutive_failures").get<int>() > 0)
    text += fmt::format("          failed {}: {}\n",
                        reconciler.at("consecutive_failures") == 1
                            ? "once"
                            : number_of(reconciler.at("consecutive_failures")) + " times in a row",
                        shown(reconciler.at("last_failure")));
  for (const ordered_json& row : reconciler.at("held")) text += held_row_text(row, now);
  return text;
}

}  // namespace

std::string status_of_daemon(const ordered_json& status, UnixMillis now, const Pasted& pasted) {
  std::string text = head(status, now, pasted);
  text += fmt::format("\n{:<34}{:>10}  {:>14}  {:>16}  {:>14}{:>12}{:>9}{:>12}\n", "reconciler", "left due",
                      "oldest due", "next due", "last tick", "moved", "errors", "quarantine");
  for (const ordered_json& reconciler : status.at("reconcilers")) text += row(reconciler, now, pasted);
  return text;
}

}  // namespace ff::daemon
