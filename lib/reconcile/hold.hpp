#pragma once

#include <cstdint>
#include <optional>

#include "base/setting.hpp"
#include "base/time.hpp"

namespace ff::reconcile {

struct Reconciler;

/// A setting for whatever ends executions or deletes rows: it limits what a mistake of somebody else, such as deadlines
/// that were written in the past, takes with it before anybody has seen it. See Hold.
constexpr SettingDecl kHoldAbove{.name = "hold_above",
                                 .kind = SettingDecl::Kind::count,
                                 .fallback = 0,
                                 .least = 0,
                                 .most = 100'000'000,
                                 .summary = "where more rows than this are due, none is moved until `resume`",
                                 .zero_is_off = true};

/// 0: no limit, or the reconciler has none to set.
std::int64_t hold_above(const Settings& own);
/// Whether it has that setting.
bool may_hold(const Reconciler& reconciler);

/// More rows are due than `hold_above`. None is moved until an operator releases them; then all are, page after page,
/// until a scan counts no more than that. Without a hold, no more rows are tried than were counted before.
struct Hold {
  std::int64_t above = 0;
  UnixMillis since{};  ///< by the database's clock
  bool released = false;
  friend bool operator==(const Hold&, const Hold&) = default;
};

/// Rows are held, and nobody has released them.
inline bool is_held(const std::optional<Hold>& hold) {
  return hold && !hold->released;
}

}  // namespace ff::reconcile
