#pragma once

#include <optional>
#include <string>

#include "base/time.hpp"
#include "reconcile/server_clock.hpp"
#include "supervisor/observer.hpp"

namespace ff::supervisor {

/// What one check of the database found.
struct Observation {
  enum class Found { writable, read_only, unreachable, schema_outdated };

  Found found = Found::unreachable;
  std::string reason;                           ///< for people; empty when all is well
  bool authentication = false;                  ///< the server refused who we are: somebody has to act
  std::optional<UnixMillis> server_started_at;  ///< by the server's clock; names one uninterrupted server
  Milliseconds server_uptime{0};
  int schema_version = 0;
  std::optional<reconcile::TimeReading> reading{};  ///< of the server's clock
  bool clock_was_set = false;                       ///< forward, since the observation before
  std::string server = "the server";                ///< which it is and since when, for people
  std::string
      locked{};  ///< a table in which leases are renewed and that somebody has locked, if one is known
  bool all_locked = false;  ///< not some of its hash children, but all of it
};

/// Decides from a series of observations whether reconcilers may run, whether leases may be taken, and when
/// to check again. Pure: time comes in as a parameter. Not thread-safe.
///
/// Recovery grace: leases that lapsed while no server could be reached, or while the server was down, say
/// nothing about their workers. Until `recovery_grace` after the server came back (from an outage that was
/// seen, as another server than before, or by its own start) leases are not taken. The same holds when a server's clock is
/// set forward, or its machine was asleep: all leases lapse at once; when a schema that was fit is fit again; after a
/// table was locked that leases are renewed in; and after its
/// disk was full.
///
/// Of a lock nobody knows whom it kept from renewing. One child may be locked for ever, or again and again, and the others must not
/// wait for that: from the first lock on, leases are held for kMostGraces times the grace at most, and no more before as
/// long has passed without one. The time for which all of a table is locked does not count, since nothing could be taken in it.
///
/// Of a disk that is full only who writes knows. From the first lease on that could not be taken for it, some are tried now and
/// then, and the first that could be is not: the grace begins. Where some rows find room and others do not, that must not go on
/// for ever: once some have for kMostGraces times the grace, the others do not count, until there has been none for as long.
///
/// A server that stands still tells nobody, and goes on with whatever it was sent. So each check wants an answer
/// within kLongestAnswer, none is an outage, and leases are taken only as long as the last good check is recent: a
/// standstill is either over before the next check gives up, or met by it.
class Availability {
 public:
  static constexpr Milliseconds kLongestAnswer{5000};
  static constexpr Milliseconds kWhileWell{2000};  ///< between two checks while all is well
  /// With half a second for the check itself.
  static constexpr Milliseconds kRecent = kWhileWell + kLongestAnswer + Milliseconds{500};

  static constexpr int kMostGraces = 4;  ///< for which leases are held because of locks
  /// While a disk is full, it is tried so often whether leases can be taken.
  static constexpr Milliseconds kTryRoomAgain{5000};

  explicit Availability(Milliseconds recovery_grace) : recovery_grace_(recovery_grace) {}

  void observe(const Observation& observation, SteadyTime now);
  /// Somebody who would have taken leases has met a table that is locked. Whether it still is, observations say.
  void met_lock(SteadyTime now);
  /// Somebody could not take leases, because the server's disk is full. True: that is new.
  bool met_full_disk(SteadyTime now);
  /// Somebody can. False: for the first time since then, and what he would have committed may be a living worker's.
  bool found_room(SteadyTime now);

  State state(SteadyTime now) const;
  bool may_run() const { return seen_ && last_.found == Observation::Found::writable; }
  bool may_take_leases(SteadyTime now) const { return is_trusted(now) && is_recent(now); }
  /// Until when a server that is writable is recovering; it may be a moment ago. Nothing: it is not recovering.
  std::optional<SteadyTime> recovering_until() const {
    return may_run() && trusted_from_ > observed_at_ ? std::optional(trusted_from_) : std::nullopt;
  }
  /// Why leases are not taken while a server is recovering, for people: the beginning of a sentence.
  const std::string& why_recovering() const { return why_recovering_; }
  /// The last check was no longer ago than it should be.
  bool is_recent(SteadyTime now) const { return now - observed_at_ <= kRecent; }

  /// When to check again: soon while something is wrong, now and then while all is well, and at the end of
  /// recovery grace.
  SteadyTime next_check(SteadyTime now, double jitter) const;

 private:
  bool is_trusted(SteadyTime now) const { return may_run() && now >= trusted_from_; }
  bool is_full(SteadyTime now) const;
  void see_server(const Observation& observation, SteadyTime now);
  void see_lock(const std::string& table, bool all_locked, SteadyTime now);
  void hold_until(SteadyTime moment, std::string why);

  Milliseconds recovery_grace_;
  bool seen_ = false;
  bool outage_ = false;
  bool was_fit_ = false;  // once
  int failures_ = 0;
  Observation last_;
  SteadyTime observed_at_{};
  std::optional<UnixMillis> server_;
  SteadyTime trusted_from_{SteadyTime::min()};
  std::string why_recovering_;
  std::string locked_;                      // which table was, as far as it is known
  std::optional<SteadyTime> locked_since_;  // later by as long as all of it was locked
  SteadyTime locked_at_{};                  // as seen last
  bool all_locked_ = false;                 // likewise
  bool is_full_ = false;                    // the disk, as far as it is known
  SteadyTime full_at_{};                    // as met last
  std::optional<SteadyTime> room_at_;       // since when some have found room while others have not
};

}  // namespace ff::supervisor
