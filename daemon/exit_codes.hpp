#pragma once

namespace ff::daemon {

/// How a command ends; scripts rely on these (the larger ones are those of sysexits.h).
enum ExitCode : int {
  kDone = 0,
  kProblem = 1,       ///< rows failed, a check found something, or the server refused
  kUsage = 64,        ///< the command line
  kUnreachable = 69,  ///< no database (one-shot commands only), or a program that is not installed
  kInternal = 70,
  kConfiguration = 78
};

}  // namespace ff::daemon
