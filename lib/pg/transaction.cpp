#include "pg/transaction.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>

namespace ff::pg {
namespace {

// Row locks are never waited for, so the only locks met are those of DDL. Better to give the connection back
// and come again than to queue behind an ALTER TABLE, with every worker queueing behind us.
constexpr Milliseconds kLongestLockWait{1000};

// A replica that is frozen, or has lost its power, keeps its row locks until its server gives up on it. Between
// two statements of ours nothing is waited for.
constexpr Milliseconds kLongestSilence{10'000};

// What our statements rely on, whatever the settings of a role, a database or a server:
// - A plan over hundreds of hash children looks expensive enough to be compiled, which takes seconds for a
//   statement that runs for milliseconds: no JIT.
// - A table whose statistics are stale looks small, so that reading all of it, or all that one index condition
//   admits, seems cheaper than finding a few rows by their key: no sequential and no bitmap scans.
// - An execution whose core row is hidden by row security looks like one that has none: an error is better than
//   fewer rows.
// - The others change what a statement means, or how the catalogue spells a name.
constexpr std::string_view kSettings =
    "; SET LOCAL jit = off; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off"
    "; SET LOCAL row_security = off; SET LOCAL standard_conforming_strings = on; SET LOCAL array_nulls = on"
    "; SET LOCAL transform_null_equals = off; SET LOCAL quote_all_identifiers = off"
    "; SET LOCAL plan_cache_mode = ";

std::string begin(Milliseconds statement_timeout, Plan plan, bool catalog_only) {
  const auto lock_timeout = std::min(kLongestLockWait, statement_timeout / 2);
  return "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = " +
         std::to_string(statement_timeout.count()) +
         "; SET LOCAL lock_timeout = " + std::to_string(lock_timeout.count()) +
         "; SET LOCAL idle_in_transaction_session_timeout = " + std::to_string(kLongestSilence.count()) +
         std::string(kSettings) + (plan == Plan::reused ? "force_generic_plan" : "auto") +
         (catalog_only ? "; SET LOCAL search_path = pg_catalog" : "");
}

}  // namespace

Transaction::Transaction(Connection& connection, Plan plan, Milliseconds at_most)
    : connection_(connection), plan_(plan) {
  connection_.execute_script(
      begin(std::min(connection_.statement_timeout(), at_most), plan, connection_.catalog_only_));
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    rollback();
  } catch (const std::exception& error) {
    spdlog::warn("rollback failed, the connection is discarded: {}", error.what());
    connection_.close();
  }
}

Result Transaction::execute(std::string_view sql, const Params& params) {
  return plan_ == Plan::reused ? connection_.execute_prepared(sql, params) : connection_.execute(sql, params);
}

void Transaction::commit() {
  open_ = false;
  try {
    const Result result = connection_.execute_script("COMMIT");
    if (result.command() != "COMMIT")
      throw Error(Error::Kind::server, "the transaction had failed and was rolled back", "25P02", "COMMIT");
  } catch (const Error& error) {
    if (error.connection_lost() || error.kind() == Error::Kind::timeout || error.interrupted())
      throw Error(Error::Kind::unknown_commit, error.what(), error.sqlstate(), "COMMIT");
    throw;
  }
}

void Transaction::rollback() {
  open_ = false;
  if (!connection_.lost()) connection_.execute_script("ROLLBACK");
}

}  // namespace ff::pg
