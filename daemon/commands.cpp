#include "commands.hpp"

namespace ff::daemon {

namespace {

/// Those that ask the database.
std::vector<Command> database_commands() {
  return {
      {"tick",
       {"NAME...|all", 1, 100},
       "One pass of each named reconciler (all: of each that is switched on) until nothing is left due.",
       {"config", "database-url", "partitions", "namespace", "instance-tag", "batch-size", "execution", "gap",
        "dry-run", "json"},
       tick},
      {"lease-events",
       {},
       "What happened to leases, one JSON object a line; from the beginning, or with --follow from now on.",
       {"config", "database-url", "partition", "after", "follow", "namespace", "instance-tag"},
       lease_events},
      {"status",
       {},
       "What is due, and the state of the database; with --url what a running daemon says of itself.",
       {"config", "database-url", "url", "json"},
       status},
      {"explain",
       {"{fp:N}:UUID", 1, 1},
       "Why one execution is where it is, what each reconciler makes of it, and what would move it.",
       {"config", "database-url", "url", "json"},
       explain_execution},
      {"audit",
       {},
       "Illegal states and drifted counters, what they mean and what mends them; takes some seconds.",
       {"config", "database-url", "partitions", "limit", "json"},
       audit_database},
      {"migrate",
       {"up|status|sql|grants [NAME...|all]", 1, 100},
       "Applies, compares or prints the schema; grants: what a daemon's role needs.",
       {"config", "database-url", "fan-out", "role"},
       migrate},
      {"check-db",
       {},
       "Says, line by line, whether a database is fit for the daemon, and what to do where it is not.",
       {"config", "database-url", "json"},
       check_db},
      {"pause",
       {"NAME...|all", 1, 100},
       "Stops reconcilers on all replicas over a database, until resumed or for a while.",
       {"config", "database-url", "reason", "until", "for"},
       pause_reconcilers},
      {"resume",
       {"NAME...|all", 1, 100},
       "Lifts a pause: of these reconcilers, or the one of all. And releases what they hold because of "
       "hold_above.",
       {"config", "database-url"},
       resume_reconcilers},
  };
}

/// Those that ask a running daemon, or nobody.
std::vector<Command> other_commands() {
  return {
      {"check-config",
       {"[FILE]", 0, 1},
       "Validates a configuration file and prints what it means.",
       {"print-default"},
       check_config},
      {"demo", {}, "The whole system on a private throw-away PostgreSQL.", {"seconds", "database-url"}, demo},
      {"quarantine",
       {},
       "The rows that a running daemon has in quarantine because they fail, and what tries them again.",
       {"config", "url", "json"},
       quarantine},
      {"healthcheck",
       {},
       "Asks a running daemon's /livez; exit code 0: it is well.",
       {"config", "address", "ready"},
       healthcheck},
      {"manual",
       {"ff-reconcilerd.8|ff-reconciler.yaml.5|bash-completion", 1, 1},
       "Prints a manual page, for `man -l -`, or what completes command lines in bash.",
       {},
       [](const Arguments& arguments) { return manual(arguments, commands()); }},
      {"version", {}, "Version, commit, compiler, libpq.", {"json"}, version},
  };
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> all = [] {
    std::vector<Command> them{{"run", {}, "The daemon.", {"config", "database-url"}, run}};
    for (const auto& part : {database_commands(), other_commands()})
      them.insert(them.end(), part.begin(), part.end());
    return them;
  }();
  return all;
}

}  // namespace ff::daemon
