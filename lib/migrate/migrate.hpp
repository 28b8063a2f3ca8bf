#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "migrate/contract.hpp"
#include "migrate/migrations.hpp"
#include "pg/connection.hpp"

/// The schema: what is there, what is missing, and the way from one to the other. The contract is with
/// FlowFabric's workers; of a database that FlowFabric's own migrations made no table is ever altered.
namespace ff::migrate {

constexpr int kDefaultFanOut = 256;
constexpr int kMaxFanOut = 1024;

/// Why a server is too old, a sentence, by its server_version_num and server_version; nothing: it is not.
std::optional<std::string> too_old(int version_number, std::string_view version);

/// Who made the schema. FlowFabric: there is an ff_migration_annotation that has rows, or one without our
/// ledger beside it (ours is made with our ledger, and stays empty).
enum class Origin { none, ours, flowfabric };

/// What was found in a database.
struct State {
  Origin origin = Origin::none;
  /// The highest version of ours that the ledger records; 0: none.
  int level = 0;
  /// How far FlowFabric's own migrations have come: by their ledger (_sqlx_migrations), and by
  /// ff_migration_annotation, where some of them are missing. Empty: that table is not there, or not for us to
  /// read. Neither decides anything: what is needed is looked for by itself.
  std::optional<int> flowfabric_ledger = {};
  std::optional<int> flowfabric_annotation = {};
  /// Hash children per table, as the ledger has it; empty where it is not known.
  std::optional<int> fan_out;
  /// Migrations of ours that are still to be applied, in order, or that made a table of our own which has been dropped
  /// since; on FlowFabric's database the latter only. With nothing else pending the reconcilers can run.
  std::vector<Migration> pending;
  /// Migrations in the ledger whose text was another one: one sentence each. They are among `problems`, too.
  std::vector<std::string> changed;
  /// Where no schema was found: those that the session does not find, and why; among `problems`, too, with what helps.
  std::vector<Missing> elsewhere = {};
  /// Why the server itself is too old; among `problems`, too.
  std::optional<std::string> server_too_old = {};
  /// Why the reconcilers cannot run on it, a sentence each; empty: they can.
  std::vector<std::string> problems;
  /// What is missing but not vital (indexes, notify triggers), a sentence each.
  std::vector<std::string> warnings;

  bool usable() const { return problems.empty(); }
  /// The level by its maker's count, ours or FlowFabric's; 0: not known.
  int schema_version() const {
    return origin == Origin::flowfabric ? flowfabric_ledger.value_or(flowfabric_annotation.value_or(0))
                                        : level;
  }
};

/// Nobody can work with what ff_partition_config says; the message says why.
class UnusablePartitions : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The session finds no schema, though the database has one; the message says why, and what helps.
class TablesElsewhere : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// After a statement has failed because a table was not there: throws TablesElsewhere if that is why, and nothing else. Within a
/// transaction nothing can be asked.
void refuse_if_elsewhere(pg::Connection& connection);

/// How many flow partitions the database has, by ff_partition_config: 1 to 32768. Throws UnusablePartitions, TablesElsewhere,
/// and pg::Error: timeout, too, where there is a deadline and no answer before it.
int flow_partitions(pg::Connection& connection, std::optional<SteadyTime> deadline = std::nullopt);

/// "version 22", with what the annotation says where that is another: "version 22 (by its annotation 20)".
std::string version_text(const State& state);

/// `up` will not touch this database; the message says why.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Report {
  /// Versions that this call recorded; those that another migrator recorded meanwhile are not among them.
  std::vector<int> applied;
  /// After it.
  State state;
};

/// Reads only. Throws pg::Error.
State inspect(pg::Connection& connection);

/// Applies what is pending, calling `on_applied` (may be empty) after each migration is recorded. On
/// FlowFabric's database it makes tables of our own, or says in a warning why it may not, and otherwise only inspects.
/// `fan_out` counts for an empty database: later the one in the
/// ledger is kept. Throws Refused when a migration that was applied has been changed since,
/// std::invalid_argument for a fan-out outside 1 to kMaxFanOut, pg::Error.
///
/// A migration is several transactions where one would need too many locks; each can be repeated, and one
/// that fails leaves those before it, so that calling `up` again resumes. Any number of migrators may run at
/// once: each of these transactions takes the same advisory lock and then looks whether the migration is
/// still missing. The lock is held by transactions and not by the session, because behind a pooler in
/// transaction mode a session's lock stays with a server connection that other clients use next.
Report up(pg::Connection& connection, int fan_out,
          const std::function<void(const Migration&)>& on_applied = nullptr);

/// The same as a script for psql, which can be run again after a failure. Where FlowFabric made the database it makes
/// the tables of our own that are missing, beside FlowFabric's, and nothing else. Throws std::invalid_argument for a
/// fan-out outside 1 to kMaxFanOut.
std::string sql(int fan_out);

}  // namespace ff::migrate
