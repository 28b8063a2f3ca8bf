#include "pg/snapshot_watch.hpp"

#include <utility>

namespace ff::pg {
namespace {

constexpr std::string_view kUser = "snapshot";

constexpr std::string_view kSnapshot = R"sql(
SELECT pg_current_snapshot()::text AS snapshot, pg_backend_pid() AS session,
       floor(extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint AS server)sql";

}  // namespace

Snapshot read_snapshot(const Row& row) {
  return {row.get<std::string>("snapshot"), row.get<std::int32_t>("session"),
          row.get<std::int64_t>("server")};
}

// Who would have to wait for another's answer scans: it may be the server that is slow.
bool SnapshotWatch::nothing_written_since(SteadyTime moment) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  try {
    Snapshot now = ask();
    if (now != last_) {
      last_ = std::move(now);
      since_ = clock_.now();
    }
  } catch (const Error&) {
    last_.reset();
  }
  return last_ && since_ <= moment;
}

Snapshot SnapshotWatch::ask() {
  const Result result = pool_.acquire(kUser)->execute(kSnapshot);
  return read_snapshot(result.one());
}

}  // namespace ff::pg
