// quota_concurrency, another replica of it, an admission and a release at one quota: whatever the order, in the midst of
// each other and at once, no count falls below the admissions, and the next correction leaves exactly these.
#include <array>
#include <barrier>
#include <catch2/catch.hpp>
#include <optional>
#include <thread>

#include "pg/transaction.hpp"
#include "quota_stage.hpp"
#include "support/deadlocks.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr const char* kQuota = "quota";
constexpr int kTimesAtOnce = 10;

/// What one process does to a quota, with a connection and an engine of its own; a quota has its partition to itself.
class Actor {
 public:
  explicit Actor(const Database& database) : database_(database), connection_(database.connect()) {}

  struct Step {
    const char* name;
    void (Actor::*take)(int partition);
  };
  static const std::vector<Step>& steps() {
    static const std::vector<Step> all{{"quota_concurrency", &Actor::correct},
                                       {"admission", &Actor::admit},
                                       {"admission of one whose window is over", &Actor::admit_again},
                                       {"release", &Actor::release}};
    return all;
  }

  void correct(int partition) {
    correct_while(partition, [] {});
  }
  /// The other steps in when it has looked and is about to act.
  void correct_while(int partition, std::function<void()> step_in) {
    EngineFixture engine(database_, "quota_concurrency",
                         {.partitions = {PartitionKey{static_cast<std::int16_t>(partition)}}});
    const auto report = engine->tick(stepping_in(std::move(step_in)));
    if (report.failure) throw *report.failure;
    if (report.error_count() > 0) throw std::runtime_error("a row was set aside");
  }
  void admit(int partition) { admit_as(partition, to_string(new_uuid())); }
  void admit_again(int partition) { admit_as(partition, "old"); }
  void release(int partition) {
    pg::Transaction transaction(connection_);
    const auto its = pg::Params::of(partition, kQuota);
    if (transaction
            .execute("DELETE FROM ff_quota_admitted WHERE partition_key = $1 AND quota_policy_id = $2"
                     " AND execution_id = '{fp:1}:new'",
                     its)
            .affected() > 0)
      transaction.execute(
          "UPDATE ff_quota_policy SET active_concurrency = greatest(active_concurrency - 1, 0)"
          " WHERE partition_key = $1 AND quota_policy_id = $2",
          its);
    transaction.commit();
  }

  int refused() const { return refused_; }

 private:
  // As check_admission does: by turns guard, policy, guard, policy. Who is refused does not try again.
  void admit_as(int partition, const std::string& name) {
    const auto its = [&] { return pg::Params::of(partition, kQuota); };
    const std::string execution = "{fp:1}:" + name;
    try {
      pg::Transaction transaction(connection_, {.isolation = pg::Isolation::serializable});
      transaction.execute(
          "SELECT FROM ff_quota_admitted WHERE partition_key = $1 AND quota_policy_id = $2"
          " AND execution_id = $3 FOR UPDATE",
          its().add(execution));
      transaction.execute(
          "SELECT FROM ff_quota_policy WHERE partition_key = $1 AND quota_policy_id = $2 FOR UPDATE", its());
      transaction.execute(
          "INSERT INTO ff_quota_admitted (partition_key, quota_policy_id, execution_id, admitted_at_ms,"
          " expires_at_ms) SELECT $1, $2, $3, now_ms, now_ms + 600000"
          " FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms) clock"
          " ON CONFLICT (partition_key, quota_policy_id, execution_id) DO UPDATE"
          " SET admitted_at_ms = excluded.admitted_at_ms, expires_at_ms = excluded.expires_at_ms",
          its().add(execution));
      transaction.execute(
          "UPDATE ff_quota_policy SET active_concurrency = active_concurrency + 1"
          " WHERE partition_key = $1 AND quota_policy_id = $2",
          its());
      transaction.commit();
    } catch (const pg::Error& error) {
      if (error.sqlstate() != "40001") throw;
      ++refused_;
    }
  }

  const Database& database_;
  pg::Connection connection_;
  int refused_ = 0;
};

struct Stage : QuotaStage {
  std::int64_t guards(int partition) {
    return number(db, "SELECT count(*) FROM ff_quota_admitted WHERE partition_key = $1",
                  pg::Params::of(partition));
  }
  /// A quota that counts five, and has two admissions, of which one has been over for long.
  void seed(int partition) {
    db.execute("DELETE FROM ff_quota_admitted WHERE partition_key = $1", pg::Params::of(partition));
    db.execute("DELETE FROM ff_quota_policy WHERE partition_key = $1", pg::Params::of(partition));
    policy(kQuota, 5, 60, partition);
    for (const auto& [name, expires_in] : {std::pair{"new", 600'000}, std::pair{"old", -600'000}})
      insert(db, "ff_quota_admitted",
             {{"partition_key", partition},
              {"quota_policy_id", kQuota},
              {"execution_id", std::string("{fp:1}:") + name},
              {"admitted_at_ms", now + expires_in - 60'000},
              {"expires_at_ms", now + expires_in}});
  }
  void check(int partition) {
    CHECK(active(kQuota, partition) >= guards(partition));
    Actor(database).correct(partition);
    CHECK(active(kQuota, partition) == guards(partition));
    CHECK(number(db, "SELECT count(*) FROM ff_quota_admitted WHERE partition_key = $1 AND expires_at_ms < $2",
                 pg::Params::of(partition, now)) == 0);
  }
};

/// Each pair with a quota of its own.
void for_each_pair(const std::function<void(int partition, const Actor::Step&, const Actor::Step&)>& what) {
  int partition = 0;
  for (const Actor::Step& first : Actor::steps())
    for (const Actor::Step& second : Actor::steps()) {
      INFO(first.name << ", " << second.name);
      what(partition++, first, second);
    }
}

}  // namespace

TEST_CASE(
    "any two steps at one quota, one after the other, leave a count that the next correction makes exact") {
  Stage t;
  Actor actor(t.database);
  for_each_pair([&](int partition, const Actor::Step& first, const Actor::Step& second) {
    t.seed(partition);
    (actor.*first.take)(partition);
    (actor.*second.take)(partition);
    t.check(partition);
  });
  CHECK(actor.refused() == 0);
}

TEST_CASE(
    "any step at one quota, taken while quota_concurrency has looked and not acted, leaves a count that "
    "holds") {
  Stage t;
  Actor looking(t.database);
  Actor stepping(t.database);
  int partition = 0;
  for (const Actor::Step& step : Actor::steps()) {
    INFO(step.name);
    t.seed(partition);
    bool stepped = false;
    looking.correct_while(partition, [&] {
      (stepping.*step.take)(partition);
      stepped = true;
    });
    CHECK(stepped);
    t.check(partition);
    ++partition;
  }
  CHECK(stepping.refused() == 0);
}

TEST_CASE("any two steps at one quota, both at once, leave a count that holds, and nobody waits for ever") {
  Stage t;
  std::array<std::optional<Actor>, 2> actors;
  for (auto& actor : actors) actor.emplace(t.database);
  for_each_pair([&](int partition, const Actor::Step& first, const Actor::Step& second) {
    for (int i = 0; i < kTimesAtOnce; ++i) {
      t.seed(partition);
      std::barrier together(2);
      std::string failed;
      std::thread beside([&] {
        together.arrive_and_wait();
        try {
          ((*actors[1]).*second.take)(partition);
        } catch (const std::exception& error) {
          failed = error.what();
        }
      });
      together.arrive_and_wait();
      CHECK_NOTHROW(((*actors[0]).*first.take)(partition));
      beside.join();
      CHECK(failed.empty());
      t.check(partition);
    }
  });
  for (auto& actor : actors) actor.reset();  // sessions tell of their deadlocks when they end
  CHECK(deadlocks(t.db) == 0);
}
