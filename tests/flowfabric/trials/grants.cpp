// claim_for_worker and nothing more: how soon after the end of its grant each execution can be claimed again.
#include <random>

#include "trials/claimable.hpp"

namespace ff::test::trials {
namespace {

constexpr std::int64_t kPromised = 2'000;
constexpr int kPortion = 100;

/// Each has its lane to itself, so that it is granted once. When the grants end.
Moments grant_all(World& world, ClaimableWatch& watch, int first, int count) {
  std::mt19937 dice(static_cast<unsigned>(first));
  Moments ends;
  for (int i = first; i < first + count; ++i) {
    const std::string lane = "lane" + std::to_string(i);
    const std::string execution = world.execution({{"partition", i % kDaemonPartitions}, {"lane", lane}});
    const Json granted =
        world.real.call("claim_for_worker", {{"lane", lane}, {"grant_ttl_ms", 1 + dice() % 2'000}});
    if (granted.is_null() || granted.at("execution") != execution)
      throw std::runtime_error("claim_for_worker does not grant " + execution);
    const std::int64_t now = now_ms(world.connection);
    watch.follow(execution, now);
    const pg::Result grant =
        world.connection.execute("SELECT expires_at_ms FROM ff_claim_grant WHERE execution_id = $1::uuid",
                                 pg::Params::of(World::uuid(execution)));
    // Gone already: it ended before now.
    ends[execution] = grant.empty() ? now : grant.one().get<std::int64_t>(0);
  }
  return ends;
}

int taken(World& world, const Moments& granted) {
  int taken = 0;
  for (const auto& [execution, end] : granted)
    if (world.taken_by(taken % 2 == 0 ? "claim_execution" : "issue_grant_and_claim", execution).empty())
      ++taken;
  return taken;
}

}  // namespace

Seen grants(World& world, const Scale& scale) {
  Seen seen;
  Lateness late;
  RunningDaemon daemon({.conninfo = world.conninfo(), .config = kSixteenPartitions});
  wait_until_ready(daemon);
  for (int first = 0; first < scale.count; first += kPortion) {
    const int portion = std::min(scale.count - first, kPortion);
    ClaimableWatch watch(world);
    const Moments ends = grant_all(world, watch, first, portion);
    late.add(lateness_of(ends, watch.until_all(world, ends), seen));
    const int all = taken(world, ends);
    seen.expect(all == portion, fmt::format("{} of {} were taken by the real claims", all, portion));
  }
  seen.expect(daemon.stop() == 0, "the daemon did not end well: " + daemon.process().err());
  seen.figures = fmt::format("{} granted to nobody who came: claimable {}", scale.count, late.text());
  seen.expect(late.most() <= kPromised,
              fmt::format("one was claimable only {} ms after its grant's end", late.most()));
  return seen;
}

}  // namespace ff::test::trials
