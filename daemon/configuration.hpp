#pragma once

#include "arguments.hpp"
#include "config/load.hpp"
#include "pg/connect.hpp"
#include "reconcile/engine.hpp"
#include "reconcile/family/registry.hpp"

/// Where the registry of reconcilers and the configuration meet: neither knows the other.
namespace ff::daemon {

/// What configuration has to know of every reconciler.
const std::vector<config::ReconcilerDecl>& reconciler_decls();

/// Whether a connection string may take a server that takes no writes: not for whoever writes by it.
enum class ReadOnly { taken, refused };

/// Flags over environment over file over defaults. Throws config::Invalid with all that is wrong, also with a connection
/// string that cannot be used. `warn` gets what does not keep the daemon from starting.
config::Config load_config(const Arguments& arguments, ReadOnly read_only = ReadOnly::taken);
config::Config load_config(std::optional<std::string> file, std::vector<config::Override> overrides,
                           ReadOnly read_only = ReadOnly::taken,
                           std::function<void(const config::Problem&)> warn = {});

/// Beside its pool a daemon has one session that listens, and now and then one more, to try whether that hears.
constexpr int kBesidePool = 2;

/// Cannot fail for what load_config has returned. `application_name`: empty for the one of commands.
pg::Connector make_connector(const config::Database& database, const std::string& application_name = {});

/// The same database by whichever of its servers answers, standby or not.
config::Database by_any_server(config::Database database);
/// The same where none of them takes writes, which is said on standard error: for whoever only reads. Throws pg::Error
/// when none is to be had.
config::Database for_reading(const config::Database& database);

/// The reconcilers of these names; of the single word `all` those that are switched on: nobody should delete old events
/// by accident. Throws UsageError.
std::vector<const reconcile::Reconciler*> named_reconcilers(const std::vector<std::string>& words,
                                                            const config::Config& config);

/// What each enabled reconciler is told of the others.
reconcile::Family family_of(const config::Config& config);

/// Storm control as it is configured.
reconcile::StormSettings storm_settings(const config::Storm& storm);

/// The rows that a reconciler works on by this configuration, in these partitions.
reconcile::Scope scope_of(const config::Config& config, const config::Reconciler& its, Partitions partitions);

}  // namespace ff::daemon
