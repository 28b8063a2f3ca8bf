// Each step of the model of leases and epochs, taken with the real statements: of the workers, and of the two reconcilers
// that take lapsed leases back.
#include <catch2/catch.hpp>

#include "demo/simulation/worker.hpp"
#include "model/explorer.hpp"
#include "model/lease.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using Model = model::LeaseModel;
using Verb = Model::Verb;

namespace {

constexpr PartitionKey kPartition{3};
constexpr Milliseconds kLong{3'600'000};

const reconcile::Reconciler& named(std::string_view name) {
  return *reconcile::find_reconciler(name);
}

/// The same, but for the epoch, which stays.
reconcile::Reconciler without_epoch(const reconcile::Reconciler& whole, std::string& act) {
  constexpr std::string_view kRaises = "lease_epoch = a.lease_epoch + 1";
  act = whole.act;
  act.replace(act.find(kRaises), kRaises.size(), "lease_epoch = a.lease_epoch");
  reconcile::Reconciler made = whole;
  made.act = act;
  return made;
}

/// What can be seen of a state.
struct Seen {
  Model::Phase phase;
  int attempt;
  std::array<int, Model::kAttempts> epochs;
  bool leased;
  bool lapsed;
  bool accepted;
  bool operator==(const Seen&) const = default;
};

/// An execution that follows a trace of the model.
class Replay {
 public:
  Replay(const Database& database, const reconcile::Reconciler& reclaims,
         const reconcile::Reconciler& times_out)
      : db_(database.connect()),
        workers_{simulation::Worker(db_, "w1", kLong), simulation::Worker(db_, "w2", kLong)},
        reclaims_(database, reclaims),
        times_out_(database, times_out) {}

  /// Says after how many steps the rows are others than the model's; nothing: they never are.
  std::optional<std::size_t> differs(const model::Trace<Model>& trace) {
    const Model model;
    begin();
    Model::State wanted;
    std::optional<std::size_t> at;
    for (std::size_t i = 0; i < trace.size() && !at; ++i) {
      wanted = model.after(wanted, trace[i]);
      events_ += wanted.accepted && trace[i].verb != Verb::lapse ? 1 : 0;
      const bool accepted = take(trace[i]);
      if (seen(accepted) != of(wanted) || number(db_, "SELECT count(*) FROM ff_lease_event") != events_)
        at = i + 1;
    }
    return at;
  }

 private:
  void begin() {
    db_.execute_script("DELETE FROM ff_lease_event; DELETE FROM ff_attempt; DELETE FROM ff_exec_core");
    execution_ = {kPartition,
                  insert_core(db_, {.partition = kPartition, .state = runnable(), .policy = max_retries(1)})};
    claims_ = {};
    events_ = 0;
  }

  bool take(const Model::Step& step) {
    const auto worker = static_cast<std::size_t>(step.worker);
    switch (step.verb) {
      case Verb::claim:
        if (const auto claim = workers_[worker].claim_one(execution_)) claims_[worker] = *claim;
        return claims_[worker].has_value();
      case Verb::renew:
      case Verb::complete:
        return write(worker, step.verb);
      case Verb::lapse:
        return db_.execute(
                      "UPDATE ff_attempt SET lease_expires_at_ms = $1 WHERE lease_expires_at_ms IS NOT NULL",
                      pg::Params::of(now_ms(db_) - 1'000))
                   .affected() == 1;
      case Verb::reclaim:
        return reclaims_->tick().processed == 1;
      case Verb::time_out:
        return times_out_->tick().processed == 1;
    }
    return false;
  }

  /// Refused, or done with, the claim is nobody's any more.
  bool write(std::size_t worker, Verb verb) {
    const simulation::Claim claim = claims_[worker].value();
    const bool accepted =
        verb == Verb::renew ? workers_[worker].renew(claim) : workers_[worker].complete(claim);
    if (!accepted || verb == Verb::complete) claims_[worker].reset();
    return accepted;
  }

  Seen seen(bool accepted) {
    const Json row = core(db_, execution_.uuid);
    const std::string phase = row["lifecycle_phase"];
    Seen all{phase == "runnable" ? Model::Phase::waiting
             : phase == "active" ? Model::Phase::active
                                 : Model::Phase::ended,
             row["attempt_index"],
             {},
             false,
             false,
             accepted};
    for (const pg::Row each : db_.execute("SELECT attempt_index, lease_epoch, lease_expires_at_ms IS NOT "
                                          "NULL, lease_expires_at_ms < $1 FROM ff_attempt",
                                          pg::Params::of(now_ms(db_)))) {
      all.epochs.at(static_cast<std::size_t>(each.get<std::int32_t>(0))) =
          static_cast<int>(each.get<std::int64_t>(1));
      all.leased = all.leased || each.get<bool>(2);
      all.lapsed = all.lapsed || each.get<std::optional<bool>>(3).value_or(false);
    }
    return all;
  }

  static Seen of(const Model::State& s) {
    return {s.phase, s.attempt, s.epochs, s.leased, s.lapsed, s.accepted};
  }

  pg::Connection db_;
  std::array<simulation::Worker, Model::kWorkers> workers_;
  EngineFixture reclaims_;
  EngineFixture times_out_;
  ExecutionId execution_;
  std::array<std::optional<simulation::Claim>, Model::kWorkers> claims_;
  std::int64_t events_ = 0;
};

}  // namespace

TEST_CASE("whoever has lost his lease never writes again, in any order of two workers and two reconcilers") {
  const Model model;
  CHECK(model::way_to_fault(model).empty());
  const auto traces = model::all_steps(model);
  REQUIRE(traces.size() > 20);
  const Database database;
  Replay replay(database, named("lease_expiry"), named("attempt_timeout"));
  for (std::size_t i = 0; i < traces.size(); ++i) {
    CAPTURE(i);
    CHECK(replay.differs(traces[i]) == std::nullopt);
  }
}

TEST_CASE("a reconciler that leaves the epoch as it is lets somebody in, in the model and in the database") {
  const auto way = model::way_to_fault(Model{.raises_epoch = false});
  REQUIRE_FALSE(way.empty());
  const Database database;
  std::string first_act, second_act;
  const auto reclaims = without_epoch(named("lease_expiry"), first_act);
  const auto times_out = without_epoch(named("attempt_timeout"), second_act);
  Replay replay(database, reclaims, times_out);
  // As soon as the lease is taken, the model's epoch is another.
  CHECK(replay.differs(way) == way.size() - 1);
}
