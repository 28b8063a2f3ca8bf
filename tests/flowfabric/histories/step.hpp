#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ff::test {

using Json = nlohmann::json;

/// One step of a history, a JSON object of one line. `do` says what: an operation of the program in
/// tests/flowfabric with its fields, or
///
///   {"do": "age", "ms": 300000}                    time passes: everything in the database becomes older
///   {"do": "tick", "reconciler": "lease_expiry"}   the daemon's turn
///   {"do": "cut", "reconciler": "lease_expiry", "table": "ff_lease_event"}
///                                                  the same, and it loses its sessions where it wants to write there
///   {"do": "kill", "reconciler": "lease_expiry", "table": "ff_lease_event", "nth": 2, "batch": 1}
///                                                  the same as a process, with transactions of so many rows, ended by
///                                                  SIGKILL where the second of them wants to write there
///
/// Executions, flows, edges, budgets, handles and waitpoints go by names (e1, f1, d1, b1, h1, w1), so that a step means
/// the same when others are taken away; one whose names nobody made does nothing.
using Step = Json;
using History = std::vector<Step>;

/// By what a step does: a worker has a lease afterwards; it has none any more; the execution may be at its end;
/// whoever worked on it has to expect to be refused.
bool claims(const std::string& what);
bool gives_up(const std::string& what);
bool ends(const std::string& what);
bool disturbs(const std::string& what);

/// Of what is done by a handle: whether FlowFabric asks if the lease is still the worker's.
bool is_fenced(const std::string& what);

/// One step a line, as from_script() reads it back.
std::string to_script(const History& history);
History from_script(std::string_view lines);

/// The unit of time of a history. Steps age the database by whole units, everything falls due in the middle of
/// one: so it does not matter how long a run really takes.
constexpr std::int64_t kUnitMs = 300'000;
constexpr std::int64_t units(int whole) {
  return whole * kUnitMs;
}
constexpr std::int64_t and_a_half(int whole) {
  return whole * kUnitMs + kUnitMs / 2;
}

/// A history goes by faster than life, so that a starved machine does not matter: a second of life is so long in it.
constexpr std::int64_t kSecondMs = 120'000;
/// A worker's clock that is two seconds behind. A lease of such a worker ends that much earlier by the database's
/// clock, and `grace` has to cover it.
constexpr std::int64_t kBehindMs = 2 * kSecondMs;

}  // namespace ff::test
