// A lapsed lease whose execution is promised to a worker: attempt_timeout and lease_expiry leave it until the grant
// lapses.
#include <catch2/catch.hpp>

#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;

namespace {

void insert_grant(pg::Connection& db, const Uuid& execution, const std::string& kind,
                  std::int64_t expires_at_ms, int partition = 3) {
  insert(db, "ff_claim_grant",
         {{"partition_key", partition},
          {"grant_id", "\\x" + to_string(new_uuid()).substr(0, 8)},
          {"execution_id", to_string(execution)},
          {"kind", kind},
          {"worker_id", "w2"},
          {"worker_instance_id", "w2-1"},
          {"grant_ttl_ms", 1000},
          {"issued_at_ms", expires_at_ms - 1000},
          {"expires_at_ms", expires_at_ms}});
}

}  // namespace

TEST_CASE(
    "attempt_timeout and lease_expiry leave a lease that is promised to another worker until the grant "
    "lapses") {
  const std::string name = GENERATE("attempt_timeout", "lease_expiry");
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}, .policy = max_retries(1)});
  const auto now = now_ms(db);
  // The second of two, of which the first has lapsed.
  insert_grant(db, id, "reclaim", now - 5);
  insert_grant(db, id, "reclaim", now + 60'000);
  const auto before = snapshot(db);
  EngineFixture engine(database, name);
  CHECK(engine->tick().scanned == 0);
  CHECK(act_on(db, *reconcile::find_reconciler(name), {attempt_key({3}, id)}).empty());
  CHECK(diff(before, snapshot(db)).empty());

  db.execute("UPDATE ff_claim_grant SET expires_at_ms = $1", pg::Params::of(now - 1));
  CHECK(engine->tick().processed == 1);
  CHECK(core(db, id)["lifecycle_phase"] == "runnable");
}

TEST_CASE("attempt_timeout and lease_expiry do not take another grant for a promise") {
  const std::string name = GENERATE("attempt_timeout", "lease_expiry");
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}, .policy = max_retries(1)});
  const auto later = now_ms(db) + 60'000;
  insert_grant(db, id, "claim", later);
  insert_grant(db, new_uuid(), "reclaim", later);
  insert_grant(db, id, "reclaim", later, 4);  // its namesake's
  EngineFixture engine(database, name);
  CHECK(engine->tick().processed == 1);
}
