#include <catch2/catch.hpp>

#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

void enqueue(pg::Connection& db, std::int64_t at_ms) {
  insert(db, "ff_cancel_dispatch_outbox",
         {{"partition_key", 3},
          {"flow_id", to_string(new_uuid())},
          {"downstream_eid", to_string(new_uuid())},
          {"target_exec_id", to_string(new_uuid())},
          {"reason", "sibling_quorum_satisfied"},
          {"enqueued_at_ms", at_ms}});
}

}  // namespace

TEST_CASE("dispatch_outbox_retention forgets what is a week old, and nothing younger") {
  const Database database;
  auto db = database.connect();
  const std::int64_t now = now_ms(db);
  constexpr std::int64_t kWeek = Milliseconds{24h * 7}.count();
  enqueue(db, now - kWeek - 1000);
  enqueue(db, now - kWeek + 60'000);
  EngineFixture engine(database, *reconcile::find_reconciler("dispatch_outbox_retention"));
  CHECK(outcomes(engine->tick()) == "forgotten=1");
  CHECK(number(db, "SELECT count(*) FROM ff_cancel_dispatch_outbox") == 1);
  CHECK(engine->tick().scanned == 0);
}
