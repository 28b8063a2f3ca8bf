// Each step of the model of the lease history, taken with real transactions and the real reader.
#include <catch2/catch.hpp>

#include "model/explorer.hpp"
#include "model/feed.hpp"
#include "pg/lease_stepped.hpp"

using namespace ff;
using namespace ff::test;
using Model = model::FeedModel;
using Verb = Model::Verb;

namespace {

/// Transactions that follow a trace of the model; events go by the model's ids.
class Replay {
 public:
  explicit Replay(Outbox& outbox) : outbox_(outbox) {
    for (int i = 0; i < Model::kMostIds; ++i) sessions_.push_back(outbox.database.connect());
  }
  ~Replay() { end(); }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// `poll` says what has been delivered by now, in the ids of the database. Returns after how many steps that is not what
  /// the model has delivered; nothing: it always is.
  std::optional<std::size_t> differs(const model::Trace<Model>& trace,
                                     const std::function<std::vector<std::int64_t>()>& poll) {
    const Model model;
    Model::State wanted;
    std::optional<std::size_t> at;
    for (std::size_t i = 0; i < trace.size() && !at; ++i) {
      wanted = model.after(wanted, trace[i]);
      take(trace[i]);
      if (trace[i].verb == Verb::poll && as_in_model(poll()) != wanted.delivered) at = i + 1;
    }
    end();
    return at;
  }

 private:
  pg::Connection& session(int id) { return sessions_.at(static_cast<std::size_t>(id) - 1); }

  void take(const Model::Step& step) {
    if (step.verb == Verb::poll) return;
    pg::Connection& its = session(step.id);
    if (step.verb == Verb::insert) {
      its.execute_script("BEGIN");
      ids_[Outbox::add(its, {})] = step.id;
      open_.insert(step.id);
    } else {
      its.execute_script(step.verb == Verb::commit ? "COMMIT" : "ROLLBACK");
      open_.erase(step.id);
    }
  }

  std::vector<int> as_in_model(const std::vector<std::int64_t>& delivered) const {
    std::vector<int> ids;
    for (const std::int64_t id : delivered) ids.push_back(ids_.at(id));
    return ids;
  }

  void end() {
    for (const int id : open_) session(id).execute_script("ROLLBACK");
    open_.clear();
    ids_.clear();
    outbox_.db.execute_script("DELETE FROM ff_lease_event");
  }

  Outbox& outbox_;
  std::vector<pg::Connection> sessions_;
  std::map<std::int64_t, int> ids_;
  std::set<int> open_;
};

}  // namespace

TEST_CASE("whatever order transactions commit in, no event is passed over and none waits without need") {
  const Model model;
  CHECK(model::way_to_fault(model).empty());
  const auto traces = model::all_steps(model);
  REQUIRE(traces.size() > 50);
  Outbox outbox;
  lease::HistoryObserver deaf;
  Replay replay(outbox);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    CAPTURE(i);
    Stepped ours(outbox.database, deaf);
    CHECK(replay.differs(traces[i], [&] {
      ours.pass();
      return ours.delivered;
    }) == std::nullopt);
  }
}

TEST_CASE("a reader that goes by the last id passes events over, in the model and in the database") {
  const auto way = model::way_to_fault(Model{.waits = false});
  REQUIRE_FALSE(way.empty());
  // What was passed over shows at the next poll.
  auto trace = way;
  trace.push_back({Verb::poll});
  Outbox outbox;
  Replay replay(outbox);
  std::vector<std::int64_t> delivered{0};
  const auto differs = replay.differs(trace, [&] {
    for (const pg::Row& row :
         outbox.db.execute("SELECT event_id FROM ff_lease_event WHERE event_id > $1 ORDER BY event_id",
                           pg::Params::of(delivered.back())))
      delivered.push_back(row.get<std::int64_t>(0));
    return std::vector(delivered.begin() + 1, delivered.end());
  });
  CHECK(differs.has_value());
}
