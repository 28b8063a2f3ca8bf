#pragma once

#include "arguments.hpp"

/// The commands, one file each. Each returns the exit code (see exit_codes.hpp) and leaves errors that it
/// cannot answer to main().
namespace ff::daemon {

int run(const Arguments& arguments);
int tick(const Arguments& arguments);
int lease_events(const Arguments& arguments);
int status(const Arguments& arguments);
int explain_execution(const Arguments& arguments);
int audit_database(const Arguments& arguments);
int migrate(const Arguments& arguments);
int check_config(const Arguments& arguments);
int check_db(const Arguments& arguments);
int demo(const Arguments& arguments);
int quarantine(const Arguments& arguments);
int pause_reconcilers(const Arguments& arguments);
int resume_reconcilers(const Arguments& arguments);
int healthcheck(const Arguments& arguments);
int manual(const Arguments& arguments, const std::vector<Command>& commands);
int version(const Arguments& arguments);

/// In the order in which help lists them.
const std::vector<Command>& commands();

}  // namespace ff::daemon
