#include "pg/snapshot_watch.hpp"

#include <utility>

namespace ff::pg {
namespace {

constexpr std::string_view kUser = "snapshot";

constexpr std::string_view kSnapshot = R"sql(
SELECT pg_current_snapshot()::text AS snapshot, pg_backend_pid() AS session)sql";

}  // namespace

bool SnapshotWatch::nothing_written_since(SteadyTime moment) {
  const std::lock_guard lock(mutex_);
  try {
    read();
  } catch (const Error&) {
    snapshot_.clear();
  }
  return !snapshot_.empty() && since_ <= moment;
}

void SnapshotWatch::read() {
  const Result result = pool_.acquire(kUser)->execute(kSnapshot);
  const Row row = result.one();
  auto snapshot = row.get<std::string>("snapshot");
  const auto session = row.get<std::int32_t>("session");
  if (snapshot == snapshot_ && session == session_) return;
  snapshot_ = std::move(snapshot);
  session_ = session;
  since_ = clock_.now();
}

}  // namespace ff::pg
