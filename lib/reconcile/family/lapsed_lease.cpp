#include "reconcile/family/lapsed_lease.hpp"

namespace ff::reconcile::lapsed_lease {

using namespace std::chrono_literals;

SettingDecl grace() {
  return {.name = "grace",
          .kind = SettingDecl::Kind::duration,
          .fallback = 0,
          .least = 0,
          .most = Milliseconds{24h}.count(),
          .summary = "how long after it lapsed a lease is still left alone"};
}

Milliseconds holdoff(const Settings& own) {
  return Milliseconds{*own.at("grace")} + 1ms;
}

std::optional<Announcement> announced(const Settings&) {
  return Announcement{kLeaseChannel};
}

}  // namespace ff::reconcile::lapsed_lease
