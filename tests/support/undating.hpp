#pragma once

#include <string_view>

#include "reconcile/reconciler.hpp"

namespace ff::test {

/// A reconciler that is about one table only: takes away the deadlines of the executions that `scan` shows, as `undated`.
/// The text must outlive it.
reconcile::Reconciler undating(std::string_view scan);

}  // namespace ff::test
