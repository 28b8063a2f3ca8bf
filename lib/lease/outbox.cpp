#include "lease/outbox.hpp"

namespace ff::lease {

std::string_view wire_name(EventType type) {
  switch (type) {
    case EventType::acquired:
      return "acquired";
    case EventType::renewed:
      return "renewed";
    case EventType::expired:
      return "expired";
    case EventType::reclaimed:
      return "reclaimed";
    case EventType::revoked:
      return "revoked";
  }
  return "";
}

std::string append_events(EventType type, std::string_view source) {
  return "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, "
         "instance_tag)\n"
         "  SELECT execution_id::text, '" +
         std::string(wire_name(type)) + "', now_ms, partition_key, name_space, instance_tag FROM " +
         std::string(source);
}

}  // namespace ff::lease
