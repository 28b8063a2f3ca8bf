#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/time.hpp"

namespace ff::reconcile {

/// Leases by the worker instance that holds them, or held them.
using LeasesOf = std::map<std::string, std::int64_t, std::less<>>;

/// Who asks storm control: a pair of a reconciler, of which the first is 0.
struct Asker {
  std::string reconciler;
  int pair = 0;
  friend auto operator<=>(const Asker&, const Asker&) = default;
};

/// All leases there are, lapsed or not, as they were last counted.
struct Fleet {
  std::int64_t leases = 0;
  std::int64_t holders = 0;
  Milliseconds lease_length{0};  ///< of a long lease, to see how slowly they lapse
};

/// Tells a network that died from workers that did: a dead worker loses all its leases, a dead network takes some from
/// every worker. Before leases are taken it is told which have lapsed; where they are many, of many, it opens, and none is
/// taken for `hold`: who lives renews them. Then those that lapsed before are taken, and it closes when they are gone.
///
///   closed    → open      leases lapsed ≥ max(20, share of all), of ≥ max(3, share of all) instances
///   open      → draining  after `hold`
///   draining  → open      as from closed, among those that have lapsed since; these alone are held then
///   draining  → closed    nobody who was held has anything left that it could take
///
/// A lease is held for no longer than `hold`, and no lease counts for two trips. A pure function of time and counts. Not
/// thread-safe.
class Breaker {
 public:
  enum class State { closed, open, draining };

  struct Settings {
    bool on = true;
    double share = 0.04;
    Milliseconds hold{30'000};
    friend bool operator==(const Settings&, const Settings&) = default;
  };

  static constexpr std::int64_t kLeastLeases = 20;
  static constexpr std::int64_t kLeastHolders = 3;
  static constexpr Milliseconds kShortestWindow{10'000};
  /// However long the leases are said to be.
  static constexpr Milliseconds kLongestWindow{3'600'000};
  /// Whoever was held and has not asked for so long is not waited for any more.
  static constexpr Milliseconds kAsksWithin{60'000};

  explicit Breaker(const Settings& settings) : settings_(settings) {}

  /// Switched off, it is closed at once.
  void configure(const Settings& settings);
  void learn_fleet(const Fleet& fleet) { fleet_ = fleet; }
  const Fleet& fleet() const { return fleet_; }

  /// From open to draining, when it is time. `database_now` is the database's clock at that moment: where it has been set
  /// back since, leases count from there on. True: it is now.
  bool advance(SteadyTime now, UnixMillis database_now);

  State state() const { return state_; }
  /// While it is open: for how much longer, at most.
  std::optional<Milliseconds> open_for(SteadyTime now) const;
  /// Leases that lapsed after this moment are not taken. Nothing: all may be.
  std::optional<UnixMillis> held_after() const;
  /// Leases that lapsed up to then have been held, and do not count again.
  UnixMillis counts_after() const { return counts_after_; }

  /// So many more lapsed leases could open it: they have to be counted before any is taken.
  bool could_trip(std::int64_t lapsed, SteadyTime now);
  /// These have lapsed after counts_after() and are not taken yet; to count them has taken `cost`: unless more lapse they
  /// are not counted again before ten times as long. True: it opens.
  bool judge(const LeasesOf& lapsed, SteadyTime now, SteadyTime::duration cost = {});
  /// They suffice by themselves to open it, whatever else has lapsed.
  bool would_trip(const LeasesOf& lapsed, SteadyTime now);
  /// These, lapsed after counts_after(), were taken.
  void taken(const LeasesOf& leases, SteadyTime now);

  /// Somebody had leases to take, and was held.
  void held(const Asker& who, SteadyTime now);
  /// Somebody has taken all that it can.
  void drained(const Asker& who) { waiting_.erase(who); }
  /// A reconciler that is switched off is not waited for.
  void forget(std::string_view reconciler);
  /// From draining to closed, when nobody is waited for. True: it is now.
  bool close_if_drained(SteadyTime now);

  /// What judge() last had before it, those that were taken within the window included, as a share of all; 0 where
  /// none are known.
  double leases_lapsed_share() const;
  double holders_lapsed_share() const;
  std::int64_t leases_lapsed() const { return lapsed_leases_; }
  std::int64_t holders_lapsed() const { return lapsed_holders_; }
  Milliseconds window() const {
    return std::clamp(fleet_.lease_length / 20, kShortestWindow, kLongestWindow);
  }

 private:
  struct Taken {
    SteadyTime at;
    LeasesOf leases;
  };
  void forget_old(SteadyTime now);
  LeasesOf with_taken(const LeasesOf& lapsed, SteadyTime now);
  bool is_too_much(std::int64_t leases, std::int64_t holders) const;

  Settings settings_;
  Fleet fleet_;
  State state_ = State::closed;
  SteadyTime opened_at_{};
  UnixMillis held_after_ = UnixMillis::min();
  UnixMillis counts_after_ = UnixMillis::min();
  std::deque<Taken> taken_;  // within the window
  std::int64_t leases_taken_ = 0;
  std::int64_t lapsed_leases_ = 0;
  std::int64_t lapsed_holders_ = 0;
  SteadyTime count_again_at_ = SteadyTime::min();
  std::map<Asker, SteadyTime> waiting_;  // who was held, and when they last asked
};

constexpr Breaker::State kBreakerStates[] = {Breaker::State::closed, Breaker::State::open,
                                             Breaker::State::draining};
constexpr std::string_view name(Breaker::State state) {
  return state == Breaker::State::closed ? "closed" : state == Breaker::State::open ? "open" : "draining";
}

}  // namespace ff::reconcile
