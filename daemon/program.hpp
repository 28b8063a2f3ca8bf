#pragma once

#include <string>
#include <vector>

#include "arguments.hpp"

namespace ff::daemon {

/// To be called first. Where standard input, output or error is closed, the next file or socket would get its number, and
/// what is written to the log would go to whoever is at its other end: they are opened so that writing fails as before.
void occupy_standard_descriptors();

/// What a program of ours does between its first and its last line: understands the command line (without the
/// program's name), runs the command, and says on standard error what went wrong, without the secrets that were typed.
/// Returns the exit code; throws nothing that a command throws as a std::exception.
int run_program(const std::vector<std::string>& line, const std::vector<Command>& commands);

}  // namespace ff::daemon
