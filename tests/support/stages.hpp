#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/setting.hpp"
#include "reconcile/reconciler.hpp"
#include "support/stage_parts.hpp"

/// Rows on which any reconciler can be tried, made by the thousand in one statement: what tests that run over
/// the whole registry know about each of its members.
namespace ff::test {

/// Rows that must not be held by others when a seeded row is to be moved.
struct Hold {
  std::string table;
  std::string where;  ///< $1: the seed's id as text
};

/// How to seed rows for one reconciler: they are due at due_ms, and each can be moved by itself.
struct Stage {
  std::string_view reconciler;
  std::string table;  ///< of the rows that the reconciler names; each is updated or deleted when it is moved
  std::string id;     ///< the column of `table` that holds the seed's id
  std::vector<Part> parts;
  std::vector<Hold> holds;  ///< any of them suffices
  bool has_tags = true;     ///< the filter's instance tag applies, beside its namespace
  int companion =
      0;  ///< its rows are those of the reconciler's first pair, or those of a companion, counted from 1
  bool may_wait = true;  ///< its rows may be seen before they fall due
  bool dated = true;     ///< its moves tell since when the rows were due
};

/// One entry for each pair of the registry.
const std::vector<Stage>& stages();
/// The stage of a pair, by itself or with its companions. Throws std::out_of_range when there is none.
const Stage& stage_of(const reconcile::Reconciler& reconciler);

struct SeedOptions {
  int count = 1;
  std::string partitions = "{3,9}";  ///< dealt out in turn
  std::optional<std::string> name_space{};
  std::optional<std::string> instance_tag{};
  /// How long ago the first row fell due, each of the others 1 ms after the one before; less than 0: in the
  /// future.
  std::int64_t due_ago_ms = 60'000;
};

struct Seed {
  PartitionKey partition;
  Uuid id;
  Uuid earlier;
  Uuid later;
};

struct Seeded {
  std::vector<Seed> seeds;
  std::int64_t transaction = 0;  ///< in which they were inserted
};

Seeded seed(pg::Connection& db, const std::vector<Part>& parts, const SeedOptions& options = {});
/// The same with due_ms so that the reconciler, with these settings beside its defaults, may take the rows
/// from `due_ago_ms` ago.
Seeded seed(pg::Connection& db, const reconcile::Reconciler& reconciler, SeedOptions options = {},
            const Settings& settings = {});

/// How many rows of a table, or of all tables that stages use, are still as they were seeded: an update makes
/// another version of a row, by another transaction.
std::int64_t untouched(pg::Connection& db, const std::string& table, const Seeded& seeded);
std::int64_t untouched(pg::Connection& db, const Seeded& seeded);

}  // namespace ff::test
