#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pause/pause.hpp"

/// The table in which operators release what reconcilers hold (see reconcile::Hold), on all replicas over a database:
/// ff_reconciler_release, which `migrate up` makes. Nothing but these statements reads or writes it.
namespace ff::pause {

struct Release {
  std::string reconciler;  ///< or kAll
  std::string by;          ///< user and machine, and the database's role
  UnixMillis at{};         ///< by the database's clock

  bool covers(std::string_view name) const { return reconciler == kAll || reconciler == name; }
  friend bool operator==(const Release&, const Release&) = default;
};

struct Releases {
  Reading::Table table = Reading::Table::missing;
  std::string why_unreadable = {};  ///< one line
  std::vector<Release> all = {};    ///< the last of each name
};

/// As try_to_read(): reads only, waits 2 s at most, throws pg::Error only where the connection is lost.
Releases try_to_read_releases(pg::Connection& connection);

/// Releases what these hold, or will hold soon. Throws pg::Error.
void release(pg::Connection& connection, const std::vector<std::string>& reconcilers, const std::string& by);

/// A hold of so much later is released all the same, because another replica may come to it only after its next scan;
/// an interval of the reconciler is added to it.
constexpr Milliseconds kReleaseReaches{60'000};

/// The last release of this name or of all that lets go what it has held since that moment, if any does.
std::optional<Release> releasing(const std::vector<Release>& releases, std::string_view name,
                                 UnixMillis since, Milliseconds interval);

}  // namespace ff::pause
