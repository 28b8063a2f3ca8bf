#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"
#include "pg/connection.hpp"

/// The table in which operators pause reconcilers, on all replicas over a database: ff_reconciler_pause, which
/// `migrate up` makes. Nothing but these statements reads or writes it.
namespace ff::pause {

constexpr std::string_view kTable = "ff_reconciler_pause";
/// Where the table's trigger announces every change.
constexpr std::string_view kChannel = "ff_reconciler_pause";
/// Stands for every reconciler.
constexpr std::string_view kAll = "*";
/// Nobody plans for longer. What a row says beyond it is read as this.
constexpr Milliseconds kLongest = std::chrono::hours{24 * 365 * 10};

struct Pause {
  std::string reconciler;  ///< or kAll
  std::string by;          ///< who paused it: user and machine, and the database's role
  std::string reason;
  UnixMillis since{};               ///< by the database's clock, as the next
  std::optional<UnixMillis> until;  ///< nothing: until it is resumed

  bool covers(std::string_view name) const { return reconciler == kAll || reconciler == name; }
  friend bool operator==(const Pause&, const Pause&) = default;
};

/// Of a reconciler, the pauses that each hold it by themselves: one by its name, one of all, or both.
std::vector<Pause> covering(const std::vector<Pause>& pauses, std::string_view name);

/// What the table says at a moment.
struct Reading {
  enum class Table { missing, unreadable, readable };
  Table table = Table::missing;
  std::string why_unreadable = {};  ///< one line
  bool lacks_privilege = false;     ///< this is why: trying again does not help
  UnixMillis database_time{};
  std::vector<Pause> in_force;  ///< by reconciler; none whose end is over
};

/// Reads only, whether or not the table is there, and has the server give up each of its two statements after `at_most`;
/// after twice as long all in all it waits no more. Throws pg::Error.
Reading read(pg::Connection& connection, std::optional<Milliseconds> at_most = std::nullopt);

/// The same for who can do without it: what fails makes it unreadable. Waits 2 s at most. Throws pg::Error only where the
/// connection is lost.
Reading try_to_read(pg::Connection& connection);

/// What an operator asks for.
struct Wish {
  std::vector<std::string> reconcilers;  ///< or kAll
  std::string by;                        ///< without the database's role
  std::string reason;
  std::optional<UnixMillis> until = {};
  std::optional<Milliseconds> lasting = {};  ///< instead of `until`
};

/// Pauses them, each with a row that replaces an earlier one. False: nothing was written, because `until` is over by the
/// database's clock. Throws pg::Error.
bool pause(pg::Connection& connection, const Wish& wish);

/// Lifts the pauses of these names; returns those that were in force. Throws pg::Error.
std::vector<std::string> resume(pg::Connection& connection, const std::vector<std::string>& reconcilers);

/// For people: "by anna@bastion, database role ops, until 2026-11-24T06:00:00Z (in 2 h): index rebuild".
std::string text_of(const Pause& pause, UnixMillis now);
/// The command that lifts what holds a reconciler, or all (kAll); of a name that is no reconciler's (`is_known`), in a row
/// written by hand, what to do instead.
std::string resume_line(std::string_view reconciler, bool is_known);
/// "lease_expiry", "all reconcilers".
std::string subject_of(const Pause& pause);

}  // namespace ff::pause
