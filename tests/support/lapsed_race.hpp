#pragma once

#include <string_view>

#include "support/engine.hpp"

/// What attempt_timeout and lease_expiry have to do alike when others are at the attempts that they are about
/// to take. Everything here makes its own database and checks.
namespace ff::test {

/// Of two attempts that were found, one is renewed before the reconciler acts: that one keeps all it has, and
/// the other's execution is taken into `lifecycle_phase`.
void check_renewed_is_left(std::string_view reconciler, std::string_view lifecycle_phase);

/// A foreign key's lock on an execution and its attempt does not pass for a row that is held.
void check_referred_to_is_taken(std::string_view reconciler);

/// Two executions of one partition whose leases lapsed, of which somebody will hold a row of the first.
struct HeldBesideFree {
  HeldBesideFree(std::string_view reconciler, const CoreRow& of_held, const CoreRow& of_free);

  /// A tick while another session has locked the held execution's row in `table`: nothing of it changes, and
  /// only the free one is taken. The lock is gone afterwards.
  void tick_while_held(const std::string& table);

  Database database;
  pg::Connection db = database.connect();
  Uuid held;
  Uuid free;
  EngineFixture engine;
};

}  // namespace ff::test
