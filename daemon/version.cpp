#include <fmt/format.h>
#include <iostream>

#include "build_info.hpp"
#include "commands.hpp"
#include "exit_codes.hpp"
#include "pg/server.hpp"
#include "report_json.hpp"

namespace ff::daemon {

int version(const Arguments& arguments) {
  if (arguments.has("json")) {
    std::cout << dump({{"version", kVersion},
                       {"revision", kRevision},
                       {"compiler", kCompiler},
                       {"libpq_version", pg::libpq_version()}})
              << '\n';
  } else {
    std::cout << fmt::format("ff-reconcilerd {} ({}), {}, libpq {}\n", kVersion, kRevision, kCompiler,
                             pg::libpq_version());
  }
  return kDone;
}

}  // namespace ff::daemon
