#include "program.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/printable.hpp"
#include "check/ways.hpp"
#include "config/problem.hpp"
#include "exit_codes.hpp"
#include "migrate/migrate.hpp"
#include "pg/error.hpp"

namespace ff::daemon {

namespace {

constexpr std::string_view kUndefinedTable = "42P01";

// A full disk, a pipe that nobody reads: what was asked for has not arrived.
int written(int code) {
  if (!std::cout.flush()) throw std::runtime_error("the output cannot be written");
  return code;
}

// "status ", where the line names a command.
std::string command_of(const std::vector<std::string>& line, const std::vector<Command>& commands) {
  const auto named = std::ranges::find_first_of(line, commands, {}, {}, &Command::name);
  return named == line.end() ? "" : *named + ' ';
}

}  // namespace

void occupy_standard_descriptors() {
  const auto open_next = [] { return ::open("/dev/null", O_RDONLY); };
  int descriptor = open_next();
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = open_next();
  if (descriptor > STDERR_FILENO) ::close(descriptor);
}

int run_program(const std::vector<std::string>& line, const std::vector<Command>& commands) {
  try {
    const Invocation invocation = understand(line, commands);
    if (invocation.help) {
      std::cout << help(commands, invocation.command);
      return written(kDone);
    }
    return written(invocation.command->run(invocation.arguments));
  } catch (const UsageError& error) {
    // It repeats what was typed, or what a script passed on from elsewhere.
    std::cerr << "ff-reconcilerd: " << printable(error.what()) << "\n`ff-reconcilerd "
              << command_of(line, commands) << "--help` lists what is allowed.\n";
    return kUsage;
  } catch (const config::Invalid& error) {
    std::cerr << error.what() << '\n';
    const auto& problems = error.problems();
    const bool only_flags = std::all_of(problems.begin(), problems.end(), [](const config::Problem& problem) {
      return problem.file == "command line";
    });
    return only_flags ? kUsage : kConfiguration;
  } catch (const pg::Error& error) {
    if (error.kind() == pg::Error::Kind::server && error.lacks_privilege()) {
      std::cerr << "ff-reconcilerd: " << error.what() << "; " << check::way_to_permission(error) << '\n';
      return kProblem;
    }
    std::cerr << "ff-reconcilerd: " << error.what() << '\n';
    if (error.table_locked()) {
      std::cerr << "-> ff-reconcilerd check-db  # says who has locked which table\n";
      return kProblem;
    }
    if (error.sqlstate() == kUndefinedTable)
      std::cerr << "-> ff-reconcilerd check-db  # says what of the schema is missing\n";
    if (error.connection_lost() || error.not_writable() || error.timed_out()) return kUnreachable;
    return error.kind() == pg::Error::Kind::server ? kProblem : kInternal;
  } catch (const migrate::UnusablePartitions& error) {
    std::cerr << "ff-reconcilerd: " << error.what() << '\n';
    return kProblem;
  } catch (const migrate::TablesElsewhere& error) {
    std::cerr << "ff-reconcilerd: " << error.what() << '\n';
    return kProblem;
  } catch (const std::exception& error) {
    std::cerr << "ff-reconcilerd: " << error.what() << '\n';
    return kInternal;
  }
}

}  // namespace ff::daemon
