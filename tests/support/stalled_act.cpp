#include "support/stalled_act.hpp"

#include <stdexcept>

#include "support/process.hpp"

namespace ff::test {
namespace {

std::string clock_that_stalls(std::string_view part) {
  return "CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$ "
         "BEGIN IF current_query() LIKE '%" +
         std::string(part) +
         " AS%' THEN PERFORM pg_advisory_xact_lock(4711); END IF; "
         "RETURN pg_catalog.clock_timestamp(); END $$";
}

constexpr const char* kWaiting =
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

}  // namespace

StalledAct::StalledAct(const Database& database, const reconcile::Reconciler& reconciler,
                       const std::vector<reconcile::RowKey>& rows)
    : StalledAct(database, [this, &database, &reconciler, rows] {
        auto own = database.connect();
        outcomes_ = act_on(own, reconciler, rows);
      }) {}

StalledAct::StalledAct(const Database& database, const std::function<void()>& work, std::string_view part)
    : gate_(database.connect()) {
  gate_.execute(clock_that_stalls(part));
  const std::string sessions_to_come = "ALTER DATABASE " + database.name();
  gate_.execute(sessions_to_come + " SET search_path = public, pg_catalog");
  gate_.execute("SELECT pg_advisory_lock(4711)");
  thread_ = std::thread([this, work] {
    try {
      work();
    } catch (...) {
      failure_ = std::current_exception();
    }
  });
  const bool waits = wait_until([&] { return number(gate_, kWaiting) == 1; }, Milliseconds{10'000});
  gate_.execute(sessions_to_come + " RESET search_path");
  if (waits) return;
  gate_.close();
  thread_.join();
  throw std::runtime_error("the act does not wait for the clock");
}

StalledAct::~StalledAct() {
  if (!thread_.joinable()) return;
  gate_.close();
  thread_.join();
}

std::vector<std::string> StalledAct::finish() {
  gate_.execute("SELECT pg_advisory_unlock(4711)");
  thread_.join();
  if (failure_) std::rethrow_exception(failure_);
  return outcomes_;
}

}  // namespace ff::test
