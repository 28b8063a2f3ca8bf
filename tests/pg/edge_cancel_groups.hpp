#pragma once

#include "support/engine.hpp"
#include "support/flow.hpp"

/// Groups for tests of the sibling-cancel pair.
namespace ff::test {

/// A pending group with its flag up: it wants any of its upstreams, has had its success, and lists them all,
/// active as they are, to be cancelled.
inline FanIn insert_listed(pg::Connection& db, int upstreams, std::int64_t enqueued_at_ms = 1000) {
  const FanIn f = insert_fan_in(db, upstreams, {.policy = {{"kind", "any_of"}}, .success = 1, .flag = true});
  std::vector<std::string> members;
  for (const Uuid& upstream : f.upstreams) members.push_back(to_string(upstream));
  db.execute("UPDATE ff_edge_group SET cancel_siblings_pending_members = $2 WHERE downstream_eid = $1",
             pg::Params::of(f.downstream, members));
  insert_pending(db, f.partition, f.flow, f.downstream, enqueued_at_ms);
  return f;
}

/// Lists these instead, as PostgreSQL writes an array: "{a,b}".
inline void set_members(pg::Connection& db, const FanIn& f, const std::string& members) {
  db.execute(
      "UPDATE ff_edge_group SET cancel_siblings_pending_members = $2::text[] WHERE downstream_eid = $1",
      pg::Params::of(f.downstream, members));
}

/// How many groups are pending.
inline std::int64_t pending(pg::Connection& db) {
  return number(db, "SELECT count(*) FROM ff_pending_cancel_groups");
}

}  // namespace ff::test
