#include "storm_watch.hpp"

#include <spdlog/spdlog.h>

#include <exception>
#include <utility>

#include "pg/server.hpp"
#include "reconcile/lease_census.hpp"

namespace ff::daemon {
namespace {

using namespace std::chrono_literals;
constexpr Milliseconds kLeasesEvery = 60s;
constexpr Milliseconds kClaimsEvery = 10s;

}  // namespace

void StormWatch::poll(pg::Connection& connection, const Partitions& partitions, const ScannerFilter& filter) {
  std::string why;
  try {
    if (storm_.breaks()) count_leases(connection, partitions, filter);
    if (storm_.is_on()) count_claims(connection);
    // Where all who take leases are paused or off, nobody else lets it go on.
    if (storm_.view().state != reconcile::Breaker::State::closed)
      storm_.verdict(pg::server_info(connection).now);
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (!why.empty() && why != why_uncounted_)
    spdlog::warn("storm: leases and claims cannot be counted: {}", why);
  if (why.empty() && !why_uncounted_.empty()) spdlog::info("storm: leases and claims are counted again");
  why_uncounted_ = why;
}

void StormWatch::count_leases(pg::Connection& connection, const Partitions& partitions,
                              const ScannerFilter& filter) {
  const SteadyTime now = clock_.now();
  if (leases_counted_at_ && now < *leases_counted_at_ + kLeasesEvery) return;
  storm_.learn_fleet(reconcile::count_leases(connection, reconcile::Groups(partitions), filter));
  leases_counted_at_ = now;
}

void StormWatch::count_claims(pg::Connection& connection) {
  const SteadyTime now = clock_.now();
  if (claims_from_ && now < claims_from_->at + kClaimsEvery) return;
  const auto from = std::exchange(claims_from_, std::nullopt);
  const bool wanted = from && storm_.wants_claims();
  const reconcile::Claims claims =
      reconcile::count_claims(connection, wanted ? std::optional(from->event) : std::nullopt);
  claims_from_ = {claims.newest, now};
  if (wanted)
    storm_.learn_claims(static_cast<double>(claims.count) /
                        std::chrono::duration<double>(now - from->at).count());
}

}  // namespace ff::daemon
