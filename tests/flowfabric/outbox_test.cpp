// What real workers, signals and operators have written into the outboxes, once it is old.
#include <map>

#include "world.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr const char* kOutboxes[] = {"ff_lease_event", "ff_completion_event", "ff_signal_event",
                                     "ff_operator_event"};

std::int64_t events(World& world, const std::string& outbox) {
  return number(world.connection, "SELECT count(*) FROM " + outbox);
}

/// Suspended and signalled, finished, replayed and left running: an event in each outbox at least.
std::string life(World& world) {
  const std::string execution = world.execution();
  world.take("claim", execution);
  const Json waitpoint = world.real.call("suspend", {{"handle", "h"}}).at("waitpoints").at(0);
  world.real.call(
      "deliver_signal",
      {{"execution", execution}, {"waitpoint", waitpoint.at("waitpoint")}, {"token", waitpoint.at("token")}});
  world.real.call("claim_resumed_execution", {{"execution", execution}, {"as", "again"}});
  world.real.call("complete", {{"handle", "again"}});
  world.real.call("replay_execution", {{"execution", execution}});
  world.take("claim", execution, "last");
  return execution;
}

/// A week and a day go by for all that was told. Completions are passed on first, but for one of each life.
void grow_old(World& world) {
  world.connection.execute(
      "UPDATE ff_completion_event SET dispatched_at_ms = committed_at_ms WHERE outcome <> 'resumable'");
  world.connection.execute(
      "UPDATE ff_completion_event SET committed_at_ms = committed_at_ms - 8 * 86400000,"
      " occurred_at_ms = occurred_at_ms - 8 * 86400000");
  world.connection.execute("UPDATE ff_signal_event SET delivered_at_ms = delivered_at_ms - 8 * 86400000");
  for (const char* outbox : {"ff_lease_event", "ff_operator_event"})
    world.connection.execute("UPDATE " + std::string(outbox) +
                             " SET occurred_at_ms = occurred_at_ms - 8 * 86400000");
}

}  // namespace

TEST_CASE(
    "outbox_retention deletes what real workers, signals and operators told a week ago, and they go on") {
  World world;
  const std::string first = life(world);
  std::map<std::string, std::int64_t> old;
  grow_old(world);
  for (const char* outbox : kOutboxes) {
    old[outbox] = events(world, outbox);
    CHECK(old[outbox] > 0);
  }
  world.real.call("renew", {{"handle", "last"}});
  const std::string second = life(world);
  std::map<std::string, std::int64_t> all;
  for (const char* outbox : kOutboxes) all[outbox] = events(world, outbox);
  const std::int64_t waiting = number(
      world.connection,
      "SELECT count(*) FROM ff_completion_event"
      " WHERE committed_at_ms < extract(epoch FROM now()) * 1000 - 604800000 AND dispatched_at_ms IS NULL");
  REQUIRE(waiting == 1);

  const std::string told = world.tick("outbox_retention");

  for (const char* outbox : kOutboxes) {
    INFO(outbox << "; " << told);
    const std::int64_t kept = outbox == std::string("ff_completion_event") ? waiting : 0;
    CHECK(events(world, outbox) == all[outbox] - old[outbox] + kept);
  }
  CHECK(world.tick("outbox_retention").empty());
  for (const std::string& execution : {first, second}) {
    INFO(execution);
    CHECK(world.core(execution).at("lifecycle_phase") == "active");
  }
  CHECK(world.real.refusal("complete", {{"handle", "last"}}).empty());
}
