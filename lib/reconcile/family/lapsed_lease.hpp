#pragma once

#include <optional>

#include "reconcile/reconciler.hpp"

/// What lease_expiry and attempt_timeout have in common: both take attempts whose lease has lapsed.
namespace ff::reconcile::lapsed_lease {

SettingDecl grace();

/// A lease is left alone while the database's clock shows its last millisecond, and then for `grace`.
Milliseconds holdoff(const Settings& own);

/// A lease is given and renewed with an event; an execution becomes active with one.
std::optional<Announcement> announced(const Settings&);

}  // namespace ff::reconcile::lapsed_lease
