#pragma once

#include <optional>

#include "reconcile/reconciler.hpp"

/// What lease_expiry and attempt_timeout have in common: both take attempts whose lease has lapsed.
namespace ff::reconcile::lapsed_lease {

SettingDecl grace();

/// A lease is left alone while the database's clock shows its last millisecond, and then for `grace`.
Milliseconds holdoff(const Settings& own);

/// Settings and fragments of a pair that takes attempts which were never reclaimed in the present run of their
/// execution, at the moment at which their lease lapses. Without storm control it takes all of them.
///
///   {due_at:a, c}, {has_its_turn:a, c}   when the attempt a of the core c is due, and whether this pair takes it. The
///                                        columns of c may all be null
std::vector<Fragment> at_once();
/// The same of its companion, for those that were reclaimed in this run: each time they wait for twice as long, so that
/// what crashes its workers, or finds none, is not given back again and again.
std::vector<Fragment> after_a_delay();
/// That companion, scanned as often as the first pair because no index shows its rows before their lease lapses.
Reconciler delayed(const Reconciler& first);

/// A lease is given and renewed with an event; an execution becomes active with one.
std::optional<Announcement> announced(const Settings&);

}  // namespace ff::reconcile::lapsed_lease
