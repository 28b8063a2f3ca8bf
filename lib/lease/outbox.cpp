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

}  // namespace ff::lease
