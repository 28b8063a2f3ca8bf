#include "reconcile/family/lapsed_lease.hpp"

#include "reconcile/with.hpp"

namespace ff::reconcile::lapsed_lease {

using namespace std::chrono_literals;

namespace {

// 1 s, doubling, to a minute.
constexpr std::string_view kDelay =
    "least(1000 << least({reclaims_of_run:{attempt}, {core}} - 1, 6)::integer, 60000)";

std::vector<Fragment> at_once() {
  return {{"due_at(attempt, core)", "{attempt}.lease_expires_at_ms"},
          {"has_its_turn(attempt, core)", "(NOT {delays} OR {reclaims_of_run:{attempt}, {core}} = 0)"}};
}

// Without a bound for the lease itself every lease there is would be read, and without a condition that knows the
// attempt alone the core of each that has lapsed.
std::vector<Fragment> after_a_delay() {
  return {{"delay(attempt, core)", std::string(kDelay)},
          {"due_at(attempt, core)", "({attempt}.lease_expires_at_ms + {delay:{attempt}, {core}})"},
          {"has_its_turn(attempt, core)",
           R"sql(({delays} AND {attempt}.raw_fields ? 'lease_reclaims'
          AND {reclaims_of_run:{attempt}, {core}} > 0
          AND {attempt}.lease_expires_at_ms <= (SELECT now_ms FROM clock)))sql"}};
}

}  // namespace

SettingDecl grace() {
  return {.name = "grace",
          .kind = SettingDecl::Kind::duration,
          .fallback = 0,
          .least = 0,
          .most = Milliseconds{24h}.count(),
          .summary = "how long after it lapsed a lease is still left alone"};
}

Reconciler with_delayed(Reconciler pair) {
  pair.holdoff = [](const Settings& own) { return Milliseconds{*own.at("grace")} + 1ms; };
  // A lease is given and renewed with an event; an execution becomes active with one.
  pair.announced = [](const Settings&) { return std::optional(Announcement{kLeaseChannel}); };
  pair.leaves_promised = true;
  pair.forbidden = "{promised:key}";
  Reconciler delayed = pair;
  delayed.fragments = with(delayed.fragments, after_a_delay());
  delayed.foreseen = false;
  delayed.wanted = [](const Family& family) { return family.delays_reclaims; };
  pair.fragments = with(pair.fragments, at_once());
  pair.companions = {delayed};
  return pair;
}

}  // namespace ff::reconcile::lapsed_lease
