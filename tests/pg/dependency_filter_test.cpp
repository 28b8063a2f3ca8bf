// dependency: whose events its filter lets it take.
#include <catch2/catch.hpp>

#include "support/engine.hpp"
#include "support/flow.hpp"

using namespace ff;
using namespace ff::test;

namespace {

/// Events of different origin, and which of them a filter takes: 'x' or '-' for each in the order in which they came.
class Taken {
 public:
  Taken() : db_(database_.connect()) {}

  using Word = std::optional<std::string>;
  /// `of_execution`: raw_fields of the core row, null for an execution without one.
  void add(const Json& of_execution, const Word& name_space, const Word& tag) {
    const FanIn f = insert_fan_in(db_, 1, {.policy = Json::object()});
    if (of_execution.is_null())
      db_.execute("DELETE FROM ff_exec_core WHERE execution_id = $1", pg::Params::of(f.upstreams[0]));
    else
      db_.execute("UPDATE ff_exec_core SET raw_fields = $2::jsonb WHERE execution_id = $1",
                  pg::Params::of(f.upstreams[0], of_execution.dump()));
    events_.push_back(insert_completion(
        db_, {.execution = f.upstreams[0], .flow = f.flow, .name_space = name_space, .instance_tag = tag}));
  }

  std::string by(const ScannerFilter& filter) {
    EngineFixture engine(database_, "dependency", {.filter = filter});
    engine->tick();
    std::string scanned;
    for (const auto event : events_) scanned += dispatched_at(db_, event).is_null() ? '-' : 'x';
    // Under the lock as well: named directly, what does not match is left alone.
    db_.execute("UPDATE ff_completion_event SET dispatched_at_ms = NULL");
    std::string named;
    for (const auto event : events_)
      named +=
          act_on(db_, *reconcile::find_reconciler("dependency"), {{{3}, {std::to_string(event)}}}, filter)
                  .empty()
              ? '-'
              : 'x';
    db_.execute("UPDATE ff_completion_event SET dispatched_at_ms = NULL");
    CHECK(named == scanned);
    return scanned;
  }

 private:
  Database database_;
  pg::Connection db_;
  std::vector<std::int64_t> events_;
};

ScannerFilter for_color(const std::string& value) {
  ScannerFilter filter;
  filter.instance_tag = ScannerFilter::Tag{"color", value};
  return filter;
}

}  // namespace

TEST_CASE("dependency matches its filter on what an event says of itself before what its execution says") {
  Taken taken;
  taken.add(origin("x", "y"), "a", "i");
  taken.add(origin("x", "y"), "a", "j");
  taken.add(origin("x", "y"), "b", "i");
  taken.add(Json(), "a", "i");
  CHECK(taken.by(for_both("a", {"cairn.instance_id", "i"})) == "x--x");
  CHECK(taken.by(for_namespace("a")) == "xx-x");
  CHECK(taken.by(for_tag("i")) == "x-xx");
  CHECK(taken.by(for_namespace("x")) == "----");
  CHECK(taken.by(for_tag("y")) == "----");
  CHECK(taken.by({}) == "xxxx");
}

TEST_CASE(
    "dependency matches its filter on the execution for whatever the event leaves out, each by itself") {
  Taken taken;
  taken.add(origin("a", "i"), std::nullopt, std::nullopt);  // as FlowFabric writes most of its events
  taken.add(origin("a", "i"), "b", std::nullopt);
  taken.add(origin("a", "i"), std::nullopt, "j");
  taken.add(origin("b", "j"), "a", std::nullopt);
  taken.add(origin("b", "j"), std::nullopt, "i");
  CHECK(taken.by(for_both("a", {"cairn.instance_id", "i"})) == "x----");
  CHECK(taken.by(for_namespace("a")) == "x-xx-");
  CHECK(taken.by(for_tag("i")) == "xx--x");
  CHECK(taken.by({}) == "xxxxx");
}

TEST_CASE("dependency never matches a filter that asks for what neither event nor execution names") {
  Taken taken;
  taken.add(Json(), std::nullopt, std::nullopt);
  taken.add(Json::object(), std::nullopt, std::nullopt);
  taken.add({{"namespace", nullptr}, {"tags", nullptr}}, std::nullopt, std::nullopt);
  taken.add({{"namespace", {"a"}}, {"tags", {"i"}}}, std::nullopt, std::nullopt);
  taken.add({{"tags", {{"color", 5}}}}, std::nullopt, std::nullopt);
  taken.add({{"tags", {{"color", "5"}}}}, std::nullopt, std::nullopt);
  CHECK(taken.by(for_namespace("a")) == "------");
  CHECK(taken.by(for_tag("i")) == "------");
  CHECK(taken.by(for_color("5")) == "-----x");
  CHECK(taken.by({}) == "xxxxxx");
}

// Our own events carry that tag, whatever the filter asks for.
TEST_CASE("dependency takes the tag of an event for cairn.instance_id, and for no other") {
  Taken taken;
  const Json tags{{"color", "red"}, {"cairn.instance_id", "i"}};
  taken.add({{"tags", tags}}, std::nullopt, "i");
  taken.add({{"tags", tags}}, std::nullopt, "red");
  taken.add({{"tags", {{"color", "blue"}}}}, std::nullopt, "red");
  taken.add(Json(), std::nullopt, "red");
  CHECK(taken.by(for_color("red")) == "xx--");
  CHECK(taken.by(for_color("i")) == "----");
  CHECK(taken.by(for_tag("i")) == "x---");
}
