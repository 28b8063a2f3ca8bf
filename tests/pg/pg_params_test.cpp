// Values on their way to the server and back.
#include <catch2/catch.hpp>
#include <limits>

#include "support/database.hpp"
#include "support/rows.hpp"

using namespace ff;
using pg::Params;
using Texts = std::vector<std::string>;

namespace {

/// One server for all cases; none of them writes anything.
pg::Connection connect() {
  static const test::Database database;
  return database.connect();
}

}  // namespace

TEST_CASE("values of every type arrive as they were sent") {
  auto db = connect();
  const Uuid uuid = test::new_uuid();
  const auto least = std::numeric_limits<std::int64_t>::min();
  const pg::Result result =
      db.execute("SELECT $1, $2, $3, $4, $5, $6, $7, pg_typeof($2)::text, pg_typeof($3)::text",
                 Params::of(true, std::int16_t{-3}, 70'000, least, uuid, "a'b\"c\\ü\n{}", PartitionKey{255}));
  const pg::Row row = result.one();
  CHECK(row.get<bool>(0));
  CHECK(row.get<std::int16_t>(1) == -3);
  CHECK(row.get<std::int32_t>(2) == 70'000);
  CHECK(row.get<std::int64_t>(3) == least);
  CHECK(row.get<Uuid>(4) == uuid);
  CHECK(row.get<std::string>(5) == "a'b\"c\\ü\n{}");
  CHECK(row.get<PartitionKey>(6) == PartitionKey{255});
  CHECK(row.get<std::string>(7) == "smallint");
  CHECK(row.get<std::string>(8) == "integer");
}

TEST_CASE("a value that is nothing travels as a null of its type") {
  auto db = connect();
  const auto result = db.execute(
      "SELECT $1 IS NULL AND $2 IS NULL AND $3 IS NULL, pg_typeof($1)::text, pg_typeof($2)::text, $1",
      Params::of(std::optional<std::int64_t>{}, std::optional<std::string>{}, std::optional<Partitions>{}));
  const pg::Row row = result.one();
  CHECK(row.get<bool>(0));
  CHECK(row.get<std::string>(1) == "bigint");
  CHECK(row.get<std::string>(2) == "text");
  CHECK_FALSE(row.get<std::optional<std::int64_t>>(3));
  CHECK(row.is_null(3));
}

TEST_CASE("an array of texts keeps every element, whatever is in it") {
  auto db = connect();
  const Texts odd{"",     "NULL",  "null",  "a,b", "{x}", "say \"hi\"", "back\\slash",
                  "it's", " lead", "ü\n\t", "$1"};
  const auto rows =
      db.execute("SELECT e FROM unnest($1) WITH ORDINALITY AS u(e, n) ORDER BY n", Params::of(odd));
  Texts back;
  for (const pg::Row row : rows) back.push_back(row.get<std::string>(0));
  CHECK(back == odd);
}

TEST_CASE("arrays of numbers, uuids and partition keys have their types, also when they are empty") {
  auto db = connect();
  const Uuid uuid = test::new_uuid();
  const auto sent = Params::of(std::vector<std::int64_t>{1, -5'000'000'000}, std::vector<Uuid>{uuid},
                               Partitions{{0}, {255}});
  const auto result = db.execute("SELECT $1[2], $2[1], $3[2], pg_typeof($3)::text, cardinality($1)", sent);
  const pg::Row row = result.one();
  CHECK(row.get<std::int64_t>(0) == -5'000'000'000);
  CHECK(row.get<Uuid>(1) == uuid);
  CHECK(row.get<std::int16_t>(2) == 255);
  CHECK(row.get<std::string>(3) == "smallint[]");
  CHECK(row.get<std::int32_t>(4) == 2);
  const auto none = Params::of(std::vector<std::int64_t>{}, std::vector<Uuid>{}, Partitions{}, Texts{});
  const auto empty =
      db.execute("SELECT cardinality($1) + cardinality($2) + cardinality($3) + cardinality($4)", none);
  CHECK(empty.one().get<std::int32_t>(0) == 0);
}

TEST_CASE("arrays of a named type take texts, and an unknown type is refused") {
  auto db = connect();
  Params params;
  params.add_array("smallint", {"1"}).add_array("integer", {"70000"}).add_array("bigint", {"5000000000"});
  params.add_array("text", {"x"}).add_array("uuid", {to_string(test::new_uuid())});
  params.add_array("bytea", {R"(\x00ff)"});
  const auto result = db.execute(
      "SELECT concat_ws(' ', pg_typeof($1), pg_typeof($2), pg_typeof($3), pg_typeof($4), pg_typeof($5), "
      "pg_typeof($6)), $6[1]",
      params);
  CHECK(result.one().get<std::string>(0) == "smallint[] integer[] bigint[] text[] uuid[] bytea[]");
  CHECK(result.one().get<std::string>(1) == R"(\x00ff)");
  CHECK_THROWS_AS(params.add_array("point", {}), std::invalid_argument);
}

TEST_CASE("parameters appended to others follow them") {
  auto db = connect();
  const auto result = db.execute("SELECT $1 || $2 || $3", Params::of("a").append(Params::of("b", "c")));
  CHECK(result.one().get<std::string>(0) == "abc");
}

TEST_CASE("a result that does not read as the wanted type is refused with the column's name") {
  auto db = connect();
  const auto result =
      db.execute("SELECT 70000 AS wide, 'x' AS word, NULL::int AS gap, 1.5::float8 AS part, -1 AS negative");
  const pg::Row row = result.one();
  CHECK_THROWS_WITH(row.get<std::int16_t>(0), Catch::Contains("wide") && Catch::Contains("70000"));
  CHECK_THROWS_WITH(row.get<std::int64_t>(1), Catch::Contains("word"));
  CHECK_THROWS_WITH(row.get<Uuid>(1), Catch::Contains("word"));
  CHECK_THROWS_WITH(row.get<std::int32_t>(2), Catch::Contains("gap") && Catch::Contains("null"));
  CHECK_THROWS_WITH(row.get<std::string>(2), Catch::Contains("gap"));
  CHECK_THROWS_WITH(row.get<std::int32_t>(3), Catch::Contains("part"));
  CHECK(row.get<double>(3) == 1.5);
  CHECK(row.get<std::int32_t>("negative") == -1);
  CHECK_THROWS_WITH(row.get<std::int32_t>("missing"), Catch::Contains("missing"));
}

TEST_CASE("a result knows its columns, its command and how many rows it touched") {
  auto db = connect();
  const auto rows = db.execute("SELECT n AS number FROM generate_series(1, 3) n");
  CHECK(rows.size() == 3);
  CHECK(rows.columns() == 1);
  CHECK(rows.column_name(0) == "number");
  CHECK(rows.affected() == 3);
  CHECK(rows.command() == "SELECT 3");
  CHECK_THROWS_WITH(rows.one(), Catch::Contains("got 3"));
  int sum = 0;
  for (const pg::Row row : rows) sum += row.get<std::int32_t>(0);
  CHECK(sum == 6);
  const auto none = db.execute("SELECT 1 WHERE false");
  CHECK(none.empty());
  CHECK_THROWS_WITH(none.one(), Catch::Contains("got 0"));
  CHECK(db.execute("CREATE TEMP TABLE t AS SELECT generate_series(1, 4)").affected() == 4);
}
