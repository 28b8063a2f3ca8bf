#include "lease/id_watch.hpp"

#include <spdlog/fmt/fmt.h>

#include "lease/cursor.hpp"

namespace ff::lease {
namespace {

constexpr std::chrono::minutes kSayAgain{1};

}  // namespace

std::optional<std::string> IdWatch::note(const OutboxHead& seen, std::int64_t reached, SteadyTime at) {
  if (seen.known_hash && *seen.known_hash != known_.hash) {
    known_.hash = *seen.known_hash;
    return fmt::format(
        "lease event {} is another than the one that had this id: ids were handed out a second time, as "
        "after "
        "a failover that lost the last writes. Events with ids up to {} that were written since are not "
        "delivered; read them with lease-events --after an older cursor",
        known_.event_id, reached);
  }
  if (!seen.drawn || *seen.drawn >= reached) {
    said_at_.reset();
    return std::nullopt;
  }
  if (said_at_ && at - *said_at_ < kSayAgain) return std::nullopt;
  said_at_ = at;
  return fmt::format(
      "the sequence of lease event ids stands at {} and the cursor at {}: it has jumped back, as after a "
      "failover that lost the last writes. Events with ids up to {} that are written now are not delivered; "
      "set it to {} with setval(), and read what was written meanwhile with lease-events --after {}",
      *seen.drawn, reached, reached, reached, to_hex({*seen.drawn}));
}

void IdWatch::settled(const Fingerprint& event) {
  if (event.event_id > known_.event_id) known_ = event;
}

}  // namespace ff::lease
