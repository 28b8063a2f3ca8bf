#include "pg/transaction.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace ff::pg {
namespace {

// A replica that is frozen, or has lost its power, keeps its row locks until its server gives up on it. Between
// two statements of ours nothing is waited for.
constexpr Milliseconds kLongestSilence{10'000};

// What our statements rely on, whatever the settings of a role, a database or a server:
// - A plan over hundreds of hash children looks expensive enough to be compiled, which takes seconds for a
//   statement that runs for milliseconds: no JIT.
// - A table whose statistics are stale looks small, so that reading all of it, or all that one index condition
//   admits, seems cheaper than finding a few rows by their key: no sequential and no bitmap scans.
// - Without pruning each statement locks all children of its tables, which few servers have room for; without index
//   scans and nested loops it reads all of a child for a row that has a key: all of these are on.
// - An execution whose core row is hidden by row security looks like one that has none: an error is better than
//   fewer rows.
// - Whoever is gone waits for no answer: a server that can tell (on Linux; elsewhere the setting may be refused) ends what
//   runs for him within two seconds, so that replicas that were killed, or gave up, leave no load behind.
// - An error, or a transaction that takes its time, must not end the session: one row that fails would stop all others.
// - The others change what a statement means, or how the catalogue spells a name.
//
// $1 statement_timeout, $2 lock_timeout, $3 idle_in_transaction_session_timeout, $4 plan_cache_mode, $5 search_path, null
// to leave it. It is run with the session's own path.
constexpr std::string_view kSettings = R"sql(
SELECT pg_catalog.set_config('statement_timeout', $1, true),
       pg_catalog.set_config('lock_timeout', $2, true),
       pg_catalog.set_config('idle_in_transaction_session_timeout', $3, true),
       pg_catalog.set_config('plan_cache_mode', $4, true),
       pg_catalog.set_config('jit', 'off', true),
       pg_catalog.set_config('enable_seqscan', 'off', true),
       pg_catalog.set_config('enable_bitmapscan', 'off', true),
       pg_catalog.set_config('enable_indexscan', 'on', true),
       pg_catalog.set_config('enable_indexonlyscan', 'on', true),
       pg_catalog.set_config('enable_nestloop', 'on', true),
       pg_catalog.set_config('enable_partition_pruning', 'on', true),
       pg_catalog.set_config('max_parallel_workers_per_gather', '0', true),
       pg_catalog.set_config('row_security', 'off', true),
       CASE WHEN pg_catalog.strpos(pg_catalog.version(), 'linux') OPERATOR(pg_catalog.>) 0
            THEN pg_catalog.set_config('client_connection_check_interval', '2s', true) END,
       CASE WHEN pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL
            THEN pg_catalog.set_config('transaction_timeout', '0', true) END,
       pg_catalog.set_config('exit_on_error', 'off', true),
       pg_catalog.set_config('standard_conforming_strings', 'on', true),
       pg_catalog.set_config('array_nulls', 'on', true),
       pg_catalog.set_config('transform_null_equals', 'off', true),
       pg_catalog.set_config('quote_all_identifiers', 'off', true),
       pg_catalog.set_config('search_path', coalesce($5, pg_catalog.current_setting('search_path')), true))sql";

std::string_view begin(Isolation isolation) {
  switch (isolation) {
    case Isolation::snapshot:
      return "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
    case Isolation::serializable:
      return "BEGIN ISOLATION LEVEL SERIALIZABLE";
    case Isolation::read_committed:
      break;
  }
  return "BEGIN ISOLATION LEVEL READ COMMITTED";
}

}  // namespace

Transaction::Transaction(Connection& connection, Options options)
    : connection_(connection), plan_(options.plan), at_most_(options.at_most) {
  const Milliseconds statement_timeout = std::min(connection_.statement_timeout(), options.at_most);
  const Milliseconds lock_timeout = std::min(options.lock_wait, statement_timeout / 2);
  const auto text = [](Milliseconds limit) { return std::to_string(limit.count()); };
  connection_.opening_ = {
      begin(options.isolation), kSettings,
      Params::of(text(statement_timeout), text(lock_timeout), text(kLongestSilence),
                 plan_ == Plan::generic ? "force_generic_plan" : "auto",
                 connection_.catalog_only_ ? std::optional<std::string>("pg_catalog") : std::nullopt)};
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
  return std::move(execute_all({{std::string(sql), params}}).front());
}

std::vector<Result> Transaction::execute_all(std::vector<Call> calls) {
  for (Call& call : calls) call.plan = plan_;
  return connection_.execute_all(std::move(calls), connection_.default_deadline());
}

std::vector<Result> Transaction::read_all(std::vector<Call> calls) {
  for (Call& call : calls) call.plan = plan_;
  calls.push_back({"ROLLBACK"});
  std::vector<Result> results = connection_.execute_all(std::move(calls), connection_.default_deadline());
  open_ = false;
  results.pop_back();
  return results;
}

void Transaction::commit() {
  open_ = false;
  if (std::exchange(connection_.opening_, std::nullopt)) return;  // nothing was sent
  connection_.usable("COMMIT");  // else nothing is sent, and nothing is unknown
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
  if (std::exchange(connection_.opening_, std::nullopt)) return;
  if (connection_.lost()) return;
  SteadyTime deadline = connection_.default_deadline();
  if (at_most_ < kLongestSilence)
    deadline = std::min(deadline, Clock::system().now() + std::max(2 * at_most_, kLongestLockWait));
  connection_.execute_script("ROLLBACK", deadline);
}

}  // namespace ff::pg
