// Where ids do not rise as they should, or nobody can tell: it is said, or refused.
#include <catch2/catch.hpp>
#include <fstream>

#include "migrate/migrate.hpp"
#include "pg/lease_stepped.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

TEST_CASE("a sequence that stocks ids for its sessions is told of, for nobody can follow their order") {
  Outbox outbox;
  CHECK_FALSE(lease::means(outbox.db).ids_are_stocked);
  outbox.db.execute("ALTER SEQUENCE ff_lease_event_event_id_seq CACHE 20");
  CHECK(lease::means(outbox.db).ids_are_stocked);
}

TEST_CASE("a standby, which does not know who writes, is refused") {
  sandbox::PrivateServer server;
  const pg::Connector connector({.conninfo = server.conninfo() + " target_session_attrs=any"});
  {
    pg::Connection db = connector.connect(in(10s));
    migrate::up(db, Database::kFanOut);
    Outbox::add(db, {});
  }
  server.stop();
  std::ofstream(server.directory() / "data" / "standby.signal").close();
  server.start();
  lease::HistoryObserver deaf;
  Stepped ours(connector.connect(in(10s)), deaf);
  CHECK_THROWS_WITH(ours.pass(), Catch::Contains("is a standby, which does not know who is writing"));
  CHECK(ours.delivered.empty());
}
