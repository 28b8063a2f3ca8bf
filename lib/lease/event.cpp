#include "lease/event.hpp"

#include <spdlog/spdlog.h>

#include <limits>

namespace ff::lease {
namespace {

template <class T>
Event made(Occurrence&& what) {
  T event;
  static_cast<Occurrence&>(event) = std::move(what);
  return event;
}

std::optional<EventType> type_named(std::string_view name) {
  for (const auto type : {EventType::acquired, EventType::renewed, EventType::expired, EventType::reclaimed,
                          EventType::revoked})
    if (wire_name(type) == name) return type;
  return std::nullopt;
}

Event made(EventType type, Occurrence&& what) {
  switch (type) {
    case EventType::acquired:
      return made<Acquired>(std::move(what));
    case EventType::renewed:
      return made<Renewed>(std::move(what));
    case EventType::expired:
      return made<Expired>(std::move(what));
    case EventType::reclaimed:
      return made<Reclaimed>(std::move(what));
    case EventType::revoked:
      break;
  }
  return made<Revoked>(std::move(what));
}

}  // namespace

const Occurrence& occurrence(const Event& event) {
  return std::visit([](const Occurrence& what) -> const Occurrence& { return what; }, event);
}

EventType type_of(const Event& event) {
  static_assert(
      std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(EventType::revoked), Event>,
                     Revoked>,
      "the alternatives stand in the order of the types");
  return static_cast<EventType>(event.index());
}

std::optional<Event> event_of(const OutboxRow& row) {
  const auto type = type_named(row.event_type);
  const auto uuid = parse_uuid(row.execution_id);
  const bool partition_exists =
      row.partition_key >= 0 && row.partition_key <= std::numeric_limits<std::int16_t>::max();
  if (!type || !uuid || !partition_exists) {
    const std::string fault = !type   ? "has the unknown type \"" + row.event_type + '"'
                              : !uuid ? "has the execution id \"" + row.execution_id + "\", which is no uuid"
                                      : "is in partition " + std::to_string(row.partition_key);
    spdlog::warn("lease event {} {}: skipped", row.event_id, fault);
    return std::nullopt;
  }
  const PartitionKey partition{static_cast<std::int16_t>(row.partition_key)};
  return made(*type, {{row.event_id},
                      {partition, *uuid},
                      row.lease_id,
                      unix_millis(row.occurred_at_ms),
                      row.name_space,
                      row.instance_tag});
}

bool matches(const ScannerFilter& filter, const OutboxRow& row) {
  if (filter.name_space && row.name_space != filter.name_space) return false;
  return !filter.instance_tag || row.instance_tag == filter.instance_tag->value;
}

}  // namespace ff::lease
