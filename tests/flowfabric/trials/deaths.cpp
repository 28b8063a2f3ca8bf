// Workers that die under a long lease, each after another last sign: how soon after its time to live what it held can be
// claimed again. Beside them those that live, each in its way, and keep their leases.
#include <random>
#include <thread>

#include "reconcile/family/liveness.hpp"
#include "trials/claimable.hpp"

namespace ff::test::trials {
namespace {

constexpr std::int64_t kLease = 300'000;
constexpr std::int64_t kPromised = 100;
constexpr std::int64_t kLook = 1'000;  // a sign without a date counts from the next look at the register
constexpr std::int64_t kTtl = 3'000;
constexpr int kPortion = 40;
constexpr Milliseconds kBetweenDeaths{150};
constexpr const char* kConfig = R"(
partitions: 0-15
recovery_grace: 0s
reconcilers:
  dead_worker: {enabled: true}
)";

/// How one that lives shows it. Each gives a sign before four fifths of its time to live are over.
enum class Way { beats, renews, registers_anew, renamed, never_registered };
constexpr Way kWays[] = {Way::beats, Way::renews, Way::registers_anew, Way::renamed, Way::never_registered};

struct Living {
  Way way;
  std::string instance;
  std::string handle;
  std::int64_t next_sign_ms = 0;
};

class Crowd {
 public:
  Crowd(World& world, int first) : world_(world), number_(first), dice_(static_cast<unsigned>(first)) {}

  /// Registers, claims, and in three of four cases gives another sign: when what it holds must be claimable.
  std::int64_t die(ClaimableWatch& watch) {
    const std::string instance = "dead" + std::to_string(number_);
    const std::string handle = "of-" + instance;
    const std::int64_t ttl = kTtl + static_cast<std::int64_t>(dice_() % 3'000);
    const int partition = number_ % kDaemonPartitions;
    const int how = static_cast<int>(std::ssize(dated_) + std::ssize(undated_)) % 4;
    enter(instance, ttl);
    const std::string execution = claim(instance, handle);
    const std::int64_t claimed = now_ms(world_.connection);
    if (how == 1) world_.real.call("heartbeat_worker", {{"instance", instance}});
    if (how == 2) enter(instance, ttl);
    if (how == 3) world_.real.call("renew", {{"handle", handle}});
    watch.follow(execution, now_ms(world_.connection));
    // A renewal has no date: it was given after that moment.
    const std::int64_t sign = how == 3 ? claimed : dated_sign(execution, partition, instance);
    (how == 3 ? undated_ : dated_)[execution] = sign + ttl;
    return sign + ttl;
  }

  void live(Way way) {
    const std::string instance = "live" + std::to_string(number_);
    Living one{.way = way, .instance = instance, .handle = "of-" + instance};
    if (way != Way::never_registered) enter(one.instance, kTtl);
    claim(one.instance, one.handle);
    if (way == Way::renamed) enter(one.instance += "-anew", kTtl);
    plan(one);
    living_.push_back(one);
  }

  /// Those that have to give a sign by now do.
  void give_signs() {
    for (Living& one : living_)
      if (now_ms(world_.connection) >= one.next_sign_ms) give_sign(one);
  }

  /// Of those that live, how many have lost their lease.
  int lost() {
    int lost = 0;
    for (const Living& one : living_)
      lost += world_.real.refusal("renew", {{"handle", one.handle}}).empty() ? 0 : 1;
    return lost;
  }

  /// When what those hold must be claimable who died after a sign with a date, and after one without.
  const Moments& dated() const { return dated_; }
  const Moments& undated() const { return undated_; }
  std::int64_t living() const { return std::ssize(living_); }
  std::int64_t signs() const { return signs_; }

 private:
  void enter(const std::string& instance, std::int64_t ttl) {
    world_.real.call("register_worker", {{"instance", instance}, {"ttl_ms", ttl}});
  }
  std::string claim(const std::string& instance, const std::string& handle) {
    const std::string lane = "lane" + std::to_string(number_);
    const Json more{{"instance", instance}, {"lane", lane}};
    const std::string execution = world_.execution(
        {{"partition", number_ % kDaemonPartitions}, {"lane", lane}, {"namespace", "default"}});
    world_.take(number_ % 2 == 0 ? "claim" : "claim_execution", execution, handle, kLease, more);
    ++number_;
    return execution;
  }
  std::int64_t dated_sign(const std::string& execution, int partition, const std::string& instance) {
    return number(world_.connection,
                  "SELECT greatest(a.started_at_ms, w.last_heartbeat_ms)"
                  "  FROM ff_attempt a, ff_worker_registry w"
                  " WHERE a.partition_key = $1 AND a.execution_id = $2::uuid"
                  "   AND w.partition_key = $3 AND w.worker_instance_id = a.worker_instance_id",
                  pg::Params::of(std::int16_t(partition), World::uuid(execution),
                                 reconcile::liveness::register_partition(instance)));
  }
  void give_sign(Living& one) {
    switch (one.way) {
      case Way::beats:
        world_.real.call("heartbeat_worker", {{"instance", one.instance}});
        break;
      case Way::registers_anew:
        enter(one.instance, kTtl);
        break;
      case Way::renews:
      case Way::renamed:
        if (!world_.real.refusal("renew", {{"handle", one.handle}}).empty()) return;  // counted in the end
        break;
      case Way::never_registered:
        return;
    }
    ++signs_;
    plan(one);
  }
  void plan(Living& one) {
    one.next_sign_ms =
        now_ms(world_.connection) + kTtl / 10 + static_cast<std::int64_t>(dice_() % (kTtl * 7 / 10));
  }

  World& world_;
  int number_;
  std::mt19937 dice_;
  Moments dated_;
  Moments undated_;
  std::vector<Living> living_;
  std::int64_t signs_ = 0;
};

}  // namespace

Seen deaths(World& world, const Scale& scale) {
  Seen seen;
  Lateness late;
  Lateness late_undated;
  std::int64_t living = 0;
  std::int64_t signs = 0;
  RunningDaemon daemon({.conninfo = world.conninfo(), .config = kConfig});
  wait_until_ready(daemon);
  for (int first = 0; first < scale.count; first += kPortion) {
    const int portion = std::min(scale.count - first, kPortion);
    ClaimableWatch watch(world);
    Crowd crowd(world, 2 * first);
    std::int64_t last = 0;
    for (int i = 0; i < portion; ++i) {
      if (i % 2 == 0) crowd.live(kWays[static_cast<std::size_t>(i / 2) % std::size(kWays)]);
      last = std::max(last, crowd.die(watch));
      crowd.give_signs();
      std::this_thread::sleep_for(kBetweenDeaths);
    }
    while (now_ms(world.connection) < last + 2 * kTtl && std::ssize(watch.seen()) < portion) {
      crowd.give_signs();
      std::this_thread::sleep_for(Milliseconds{20});
    }
    late.add(lateness_of(crowd.dated(), watch.seen(), seen));
    late_undated.add(lateness_of(crowd.undated(), watch.seen(), seen));
    const int lost = crowd.lost();
    seen.expect(lost == 0, fmt::format("{} of {} that live have lost their lease", lost, crowd.living()));
    living += crowd.living();
    signs += crowd.signs();
  }
  seen.expect(daemon.stop() == 0, "the daemon did not end well: " + daemon.process().err());
  seen.figures = fmt::format(
      "{} died under a lease of {} s: claimable {} (after the time to live), after a renewal {}; {} lived "
      "beside them "
      "and gave {} signs",
      scale.count, kLease / 1'000, late.text(), late_undated.text(), living, signs);
  seen.expect(
      late.of_99_in_100() <= kPromised,
      fmt::format("of a hundred one was claimable only {} ms after its time to live", late.of_99_in_100()));
  seen.expect(late_undated.of_99_in_100() <= kPromised + kLook,
              fmt::format("of a hundred that had renewed one was claimable only {} ms after its time to live",
                          late_undated.of_99_in_100()));
  return seen;
}

}  // namespace ff::test::trials
