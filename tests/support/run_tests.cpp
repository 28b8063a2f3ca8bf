// Catch2's own code is compiled here.
#define CATCH_CONFIG_RUNNER
#include "support/run_tests.hpp"

#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <csignal>

namespace ff::test {

int run_tests(int argc, char** argv) {
  // As in the daemon: a peer that went away is an error of the write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  spdlog::set_level(spdlog::level::err);
  return Catch::Session().run(argc, argv);
}

}  // namespace ff::test
