#include "explain/words.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "audit/remedy.hpp"
#include "base/duration.hpp"
#include "reconcile/holders.hpp"

namespace ff::explain {
namespace {

// A time that no clock ever shows comes from a row, too: the difference has to fit.
Milliseconds between(UnixMillis from, UnixMillis to) {
  constexpr UnixMillis kFirst{};
  constexpr UnixMillis kLast{std::chrono::hours{24 * 365 * 8000}};
  return std::clamp(to, kFirst, kLast) - std::clamp(from, kFirst, kLast);
}

}  // namespace

std::string when(UnixMillis at, UnixMillis now) {
  return at > now ? "in " + spoken_duration(between(now, at)) : age(at, now) + " ago";
}

std::string age(UnixMillis at, UnixMillis now) {
  return spoken_duration(std::max(between(at, now), Milliseconds{0}));
}

std::string end_of(const Grant& grant, UnixMillis now) {
  if (grant.is_endless()) return "never ends";
  return (grant.lives(now) ? "ends " : "ended ") + when(grant.expires_at, now);
}

std::string next(std::optional<UnixMillis> due, std::optional<UnixMillis> known_until, UnixMillis now) {
  if (due) return *due > now ? when(*due, now) : "now";
  return known_until && *known_until > now ? "none for " + spoken_duration(between(now, *known_until))
                                           : "unknown";
}

std::string who(const Holder& holder, UnixMillis now) {
  if (!holder.since) return reconcile::text_of(holder);
  return reconcile::text_of(holder) + (holder.as_seen ? "; a daemon has seen the row held for " : " for ") +
         age(*holder.since, now);
}

std::string counts(const FanIn& fan_in) {
  std::string kind = fan_in.kind;
  if (kind == "quorum") kind += fmt::format(" of {}", fan_in.k);
  return fmt::format("{}: {} success, {} failed, {} skipped, {} running", kind, fan_in.success, fan_in.fail,
                     fan_in.skip, fan_in.running);
}

std::string what(const ScannerFilter& filter) {
  std::string text;
  if (filter.name_space) text = "namespace " + *filter.name_space;
  if (filter.instance_tag)
    text += fmt::format("{}instance tag {}={}", text.empty() ? "" : ", ", filter.instance_tag->key,
                        filter.instance_tag->value);
  return text;
}

std::string tick(std::string_view reconciler, const ExecutionId& id) {
  return fmt::format("ff-reconcilerd tick {} --execution '{}'", reconciler, to_string(id));
}

std::string explain(const ExecutionId& id) {
  return fmt::format("ff-reconcilerd explain '{}'", to_string(id));
}

std::string remedy(std::string_view check, const ExecutionId& id, const Columns& columns) {
  return audit::filled_in(audit::check_named(check).remedy, [&](std::string_view column) {
    if (column == "id") return to_string(id);
    if (column == "partition_key") return std::to_string(id.partition.value);
    return column == "key" ? to_string(id.uuid) : columns.at(column);
  });
}

std::string update_core(const ExecutionId& id, std::string_view assignments) {
  return fmt::format("UPDATE ff_exec_core SET {} WHERE partition_key = {} AND execution_id = '{}';",
                     assignments, id.partition.value, to_string(id.uuid));
}

}  // namespace ff::explain
