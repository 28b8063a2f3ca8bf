#pragma once

#include <string>
#include <vector>

#include "pg/connection.hpp"
#include "reconcile/reconciler.hpp"

/// What has to be granted to the role of a daemon, in the database that it is to work on.
namespace ff::daemon {

using Needs = std::vector<reconcile::Privileges>;

/// To run these reconcilers; and whatever it runs, the daemon verifies the schema and counts partitions.
Needs needs_of(const std::vector<const reconcile::Reconciler*>& reconcilers);
/// Of the commands that only read: `status` looks at what every reconciler looks at, switched on or not, `explain` at
/// grants and edges as well, and `lease-events` at the outbox.
Needs needs_of_reading();

/// To see what is paused and released, which a daemon can do without; and to pause and release.
Needs needs_of_seeing_pauses();
Needs needs_of_pausing();

/// "SELECT, UPDATE" on "TABLE public.ff_attempt".
struct Grant {
  std::string privileges;
  std::string object;
};

/// What that comes to in this database, each object once: the tables that are there, the sequences behind the
/// defaults of their columns, database and schemas where not every role may use them. Throws pg::Error.
std::vector<Grant> grants(pg::Connection& connection, const Needs& needs);
/// What of it the role of this session has not got.
std::vector<Grant> missing(pg::Connection& connection, const Needs& needs);

/// As statements to a role, one a line.
std::string statements(pg::Connection& connection, const std::vector<Grant>& grants, const std::string& role);

}  // namespace ff::daemon
