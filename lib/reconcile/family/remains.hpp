#pragma once

#include <vector>

#include "reconcile/reconciler.hpp"

/// What execution_retention says of executions and flows that are over: how old they are, what holds on to them, and what is
/// left of them in which tables.
namespace ff::reconcile::remains {

std::vector<Fragment> fragments();
std::vector<Privileges> privileges();

}  // namespace ff::reconcile::remains
