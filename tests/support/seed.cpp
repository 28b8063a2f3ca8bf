// Puts a stage into a database, as often as is wished.
#include <algorithm>
#include <set>

#include "support/engine.hpp"
#include "support/stages.hpp"

namespace ff::test {
namespace {

// $1 partitions, $2 how many, $3 namespace, $4 instance tag, $5 how long ago the first is due in ms
constexpr std::string_view kSeed = R"sql(
WITH seed AS MATERIALIZED (
  SELECT ($1::smallint[])[1 + i % cardinality($1::smallint[])] AS partition_key, gen_random_uuid() AS id,
         gen_random_uuid() AS earlier, gen_random_uuid() AS later,
         floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - $5 + i AS due_ms, $3 AS name_space,
         jsonb_strip_nulls(jsonb_build_object('namespace', $3, 'tags', jsonb_build_object('cairn.instance_id', $4)))
           AS raw_fields
    FROM generate_series(0, $2 - 1) AS i
))sql";

std::string insertion(const Part& part) {
  std::string names = "partition_key";
  std::string values = "partition_key";
  for (const auto& [name, value] : part.columns) {
    names += ", " + name;
    values += ", " + value;
  }
  return "(INSERT INTO " + part.table + " (" + names + ") SELECT " + values + " FROM seed)";
}

}  // namespace

Seeded seed(pg::Connection& db, const std::vector<Part>& parts, const SeedOptions& options) {
  std::string sql(kSeed);
  for (std::size_t i = 0; i < parts.size(); ++i)
    sql += ",\npart_" + std::to_string(i) + " AS " + insertion(parts[i]);
  sql += "\nSELECT partition_key, id, earlier, later, pg_current_xact_id()::text::bigint FROM seed";
  const pg::Result made =
      db.execute(sql, pg::Params::of(options.partitions, std::int32_t{options.count}, options.name_space,
                                     options.instance_tag, options.due_ago_ms));
  Seeded seeded;
  for (const pg::Row row : made) {
    seeded.seeds.push_back({row.get<PartitionKey>(0), row.get<Uuid>(1), row.get<Uuid>(2), row.get<Uuid>(3)});
    seeded.transaction = row.get<std::int64_t>(4);
  }
  return seeded;
}

Seeded seed(pg::Connection& db, const reconcile::Reconciler& reconciler, SeedOptions options,
            const Settings& settings) {
  options.due_ago_ms +=
      std::max<std::int64_t>(0, reconciler.holdoff(settings_of(reconciler.name, settings)).count());
  return seed(db, stage_of(reconciler).parts, options);
}

std::int64_t untouched(pg::Connection& db, const std::string& table, const Seeded& seeded) {
  return number(db, "SELECT count(*) FROM " + table + " WHERE xmin::text::bigint = $1",
                pg::Params::of(seeded.transaction));
}

std::int64_t untouched(pg::Connection& db, const Seeded& seeded) {
  std::set<std::string> tables;
  for (const Stage& stage : stages())
    for (const Part& part : stage.parts) tables.insert(part.table);
  std::int64_t rows = 0;
  for (const std::string& table : tables) rows += untouched(db, table, seeded);
  return rows;
}

}  // namespace ff::test
