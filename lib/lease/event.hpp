#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/ids.hpp"
#include "base/scanner_filter.hpp"
#include "base/time.hpp"
#include "lease/cursor.hpp"
#include "lease/outbox.hpp"

namespace ff::lease {

/// What every event of the lease history says. FlowFabric's own workers leave the lease id empty: they name a
/// lease by execution, attempt and epoch.
struct Occurrence {
  Cursor cursor;  ///< behind this event: hand it back to go on after it
  ExecutionId execution;
  std::optional<std::string> lease_id;
  UnixMillis at;  ///< by the clock of the database or of the worker, whoever wrote it
  std::optional<std::string> name_space;
  std::optional<std::string> instance_tag;  ///< the value alone: the key is not stored
};

/// A worker took a lease.
struct Acquired : Occurrence {};
/// The worker prolonged it.
struct Renewed : Occurrence {};
/// It lapsed and was taken away.
struct Expired : Occurrence {};
/// A worker took over what another had let lapse; the lease id is the new one.
struct Reclaimed : Occurrence {};
/// It was taken away before its time.
struct Revoked : Occurrence {
  std::string revoked_by = "operator";  ///< the outbox does not say by whom; this is FlowFabric's word for it
};

using Event = std::variant<Acquired, Renewed, Expired, Reclaimed, Revoked>;

const Occurrence& occurrence(const Event& event);
EventType type_of(const Event& event);

/// A row of `ff_lease_event` as it is stored.
struct OutboxRow {
  std::int64_t event_id = 0;
  std::int32_t partition_key = 0;
  std::string execution_id;
  std::optional<std::string> lease_id;
  std::string event_type;
  std::int64_t occurred_at_ms = 0;
  std::optional<std::string> name_space;
  std::optional<std::string> instance_tag;
};

/// Nothing, with a warning in the log, for a row whose type is unknown, whose execution id is no uuid or
/// whose partition cannot exist.
std::optional<Event> event_of(const OutboxRow& row);

/// The namespace is equal; of the tag the value is, whatever its key. A null never matches what is asked for.
bool matches(const ScannerFilter& filter, const OutboxRow& row);

}  // namespace ff::lease
