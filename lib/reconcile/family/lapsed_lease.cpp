#include "reconcile/family/lapsed_lease.hpp"

namespace ff::reconcile::lapsed_lease {

using namespace std::chrono_literals;

SettingDecl grace() {
  return {.name = "grace",
          .kind = SettingDecl::Kind::duration,
          .fallback = 0,
          .least = 0,
          .most = Milliseconds{24h}.count(),
          .summary = "how long after it lapsed a lease is still left alone"};
}

Milliseconds holdoff(const Settings& own) {
  return Milliseconds{*own.at("grace")} + 1ms;
}

namespace {

// 1 s, doubling, to a minute.
constexpr std::string_view kDelay =
    "(CASE WHEN {reclaims:{attempt}} > 6 THEN 60000 ELSE 1000 << ({reclaims:{attempt}} - 1)::integer END)";

}  // namespace

std::vector<Fragment> at_once() {
  return {{"due_at(attempt)", "{attempt}.lease_expires_at_ms"},
          {"has_its_turn(attempt)", "(NOT {delays} OR {reclaims:{attempt}} = 0)"}};
}

// Without a bound for the lease itself every lease there is would be read.
std::vector<Fragment> after_a_delay() {
  return {{"delay(attempt)", std::string(kDelay)},
          {"due_at(attempt)", "({attempt}.lease_expires_at_ms + {delay:{attempt}})"},
          {"has_its_turn(attempt)",
           R"sql(({delays} AND {reclaims:{attempt}} > 0
          AND {attempt}.lease_expires_at_ms <= (SELECT now_ms FROM clock)))sql"}};
}

Reconciler delayed(const Reconciler& first) {
  Reconciler its = first;
  std::erase_if(its.fragments, [](const Fragment& each) {
    return each.signature == "due_at(attempt)" || each.signature == "has_its_turn(attempt)";
  });
  for (const Fragment& each : after_a_delay()) its.fragments.push_back(each);
  its.foreseen = false;
  its.wanted = [](const Family& family) { return family.delays_reclaims; };
  return its;
}

std::optional<Announcement> announced(const Settings&) {
  return Announcement{kLeaseChannel};
}

}  // namespace ff::reconcile::lapsed_lease
