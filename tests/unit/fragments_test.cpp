#include "base/fragments.hpp"

#include <catch2/catch.hpp>

using namespace ff;
using Catch::Matchers::Contains;

namespace {

Fragments some() {
  return Fragments().add({{"clock", "SELECT now"},
                          {"core_of(row)", "{core_by:{row}, execution_id}"},
                          {"core_by(row, column)", "(core WHERE id = {row}.{column})"},
                          {"number(json)", "({json})::bigint"},
                          {"schema", "{schema}"},
                          {"loop", "again {loop} "}});
}

}  // namespace

TEST_CASE("a placeholder stands for its fragment, and that for its own") {
  CHECK(some().expand("WITH ({clock}) {core_of:a}") == "WITH (SELECT now) (core WHERE id = a.execution_id)");
  CHECK(some().expand("{core_by:p, downstream}") == "(core WHERE id = p.downstream)");
  CHECK(some().expand("{clock}{clock}") == "SELECT nowSELECT now");
  CHECK(some().expand("nothing") == "nothing");
}

TEST_CASE("the last argument takes all the rest, placeholders and commas included") {
  CHECK(some().expand("{number:f(a, 'b:c')}") == "(f(a, 'b:c'))::bigint");
  CHECK(some().expand("{number:{number:x}->'{}'}") == "((x)::bigint->'{}')::bigint");
}

TEST_CASE("a brace that no letter follows is just a brace") {
  for (const char* text : {"'{}'::jsonb", "'^[0-9]{1,10}$'", R"('{"a": {"b": 1}}')", "{", "}", "{ clock }"})
    CHECK(some().expand(text) == text);
}

TEST_CASE("a fragment that is its own placeholder is left for somebody else") {
  CHECK(some().expand("{schema}.{number:{schema}.t}") == "{schema}.({schema}.t)::bigint");
}

TEST_CASE("a placeholder that means nothing is refused, with what would have") {
  CHECK_THROWS_WITH(some().expand("a {core_off:a}"),
                    Contains("{core_off:a}") && Contains("clock, core_by, core_of"));
  CHECK_THROWS_WITH(some().expand("{row}"), Contains("unknown placeholder: {row}"));
  for (const char* text : {"{clock", "{Clock}", "{clock }", "{core of:a}", "{cl1ck}", "{x:{clock}"})
    CHECK_THROWS_AS(some().expand(text), std::invalid_argument);
}

TEST_CASE("a placeholder with too few arguments, or with some that nobody asked for, is refused") {
  for (const char* text : {"{core_of}", "{core_by:a}", "{core_by:a, }", "{core_of:}", "{clock:a}"})
    CHECK_THROWS_WITH(some().expand(text), Contains("arguments instead of"));
}

TEST_CASE("a fragment within itself, and a name that two have, are refused") {
  CHECK_THROWS_WITH(some().expand("{loop}"), Contains("within itself"));
  CHECK_THROWS_WITH(some().add(Fragment{"clock(a)", ""}), Contains("two fragments"));
  CHECK_THROWS_WITH(Fragments().add(Fragment{"Clock", ""}), Contains("no name"));
}
