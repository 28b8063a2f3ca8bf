#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "reconcile/breaker.hpp"
#include "reconcile/token_bucket.hpp"

namespace ff::reconcile {

/// How what gives work back is held to a measure, when all of it falls due at once.
struct StormSettings {
  static constexpr std::int64_t kAuto = -1;
  static constexpr std::int64_t kNoLimit = 0;

  bool on = true;
  std::int64_t rate = kAuto;  ///< rows a second
  std::int64_t floor = 1000;  ///< the least that kAuto comes to
  Breaker::Settings breaker = {};
  friend bool operator==(const StormSettings&, const StormSettings&) = default;
};

/// What there is to see of it, at one moment.
struct StormView {
  bool on = false;
  bool breaks = false;  ///< the breaker is switched on
  Breaker::State state = Breaker::State::closed;
  std::optional<Milliseconds> open_for = {};  ///< for how much longer it is open, at most
  double rate = 0;                            ///< rows a second; 0: no limit
  std::map<std::string, std::int64_t, std::less<>> queued =
      {};                 ///< rows that wait for the rate, by reconciler
  std::int64_t held = 0;  ///< lapsed leases that an open breaker holds, at least
  std::int64_t leases = 0;
  double leases_lapsed_share = 0;
  double holders_lapsed_share = 0;
  std::int64_t trips = 0;
  std::map<std::string, std::int64_t, std::less<>> releases = {};  ///< by how: see kStormReleases
};

/// How an open breaker was released: its hold was over, or it was switched off.
constexpr std::string_view kStormReleases[] = {"hold_over", "switched_off"};

/// What all engines of a daemon ask before they give work back: a rate for all of them, and the breaker for those that take
/// leases. Each change is one line of the log. Nothing of it outlives the process, and replicas know nothing of each other.
/// Safe from any thread.
class Storm {
 public:
  Storm(const StormSettings& settings, const Clock& clock);

  void configure(const StormSettings& settings);
  bool is_on() const;
  bool breaks() const;  ///< the breaker is switched on

  /// How many of these rows may be given back now; all where there is no limit.
  std::int64_t take(std::string_view who, std::int64_t wanted);
  /// Some that were not given back after all.
  void put_back(std::int64_t rows);
  /// Whoever got fewer than it wanted is to try again so much later: when there are tokens for a quarter of a second's rows.
  Milliseconds next_refill() const;
  /// So many rows of it wait for the rate.
  void queued(const Asker& who, std::int64_t rows);
  /// Of a reconciler that has been switched off nothing waits any more.
  void forget(std::string_view reconciler);

  /// All leases, counted anew.
  void learn_fleet(const Fleet& fleet);
  /// Claims a second, as the workers make them at present.
  void learn_claims(double a_second);
  /// Somebody has gone short lately, so that it matters how many are claimed.
  bool wants_claims() const;

  /// What the breaker says before leases are taken: how long to leave all alone, or those that lapsed after a moment.
  struct Verdict {
    std::optional<UnixMillis> held_after = {};  ///< nothing: all may be taken
    Milliseconds open_for{0};
  };
  Verdict verdict(UnixMillis database_now);
  /// So many have lapsed: they have to be counted by their holders, from this moment on, before any is taken.
  std::optional<UnixMillis> to_be_counted(std::int64_t lapsed);
  bool would_trip(const LeasesOf& lapsed);
  void judge(const LeasesOf& lapsed, SteadyTime::duration cost);
  void taken(const LeasesOf& leases);
  UnixMillis counts_after() const;

  void held(const Asker& who);
  void drained(const Asker& who);

  StormView view() const;

 private:
  void set_rate();  // under mutex_
  void release(std::string_view how);
  void close_if_drained();

  const Clock& clock_;
  mutable std::mutex mutex_;
  StormSettings settings_;  // guarded by mutex_, as is the rest
  double claims_ = 0;
  TokenBucket bucket_;
  Breaker breaker_;
  bool short_ = false;  // as logged
  std::map<Asker, std::int64_t> queued_;
  std::int64_t held_ = 0;
  std::int64_t trips_ = 0;
  std::map<std::string, std::int64_t, std::less<>> releases_;
};

}  // namespace ff::reconcile
