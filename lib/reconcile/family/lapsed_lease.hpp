#pragma once

#include "reconcile/reconciler.hpp"

/// What lease_expiry and attempt_timeout have in common: both take attempts whose lease has lapsed.
namespace ff::reconcile::lapsed_lease {

SettingDecl grace();

/// Completes a pair that has the setting `grace`, and the parameter `delays`: storm control is on. Its statements have
///
///   {due_at:a, c}, {has_its_turn:a, c}   when the attempt a of the core c is due, and whether this pair takes it. The
///                                        columns of c may all be null
///
/// A lease is left alone while the database's clock shows its last millisecond, then for `grace`, and while its execution is
/// promised to somebody. The pair itself takes attempts at once that were never reclaimed in the present run of their
/// execution; without storm control it takes all. Its companion takes those that were: each time they wait for twice as long,
/// so that what crashes its workers, or finds none, is not given back again and again. It is scanned as often, because no
/// index shows its rows before their lease lapses.
Reconciler with_delayed(Reconciler pair);

}  // namespace ff::reconcile::lapsed_lease
