#include <iostream>

#include "commands.hpp"
#include "config/print.hpp"
#include "configuration.hpp"
#include "exit_codes.hpp"

namespace ff::daemon {

int check_config(const Arguments& arguments) {
  const bool print_default = arguments.has("print-default");
  if (print_default != arguments.words().empty())
    throw UsageError("check-config: either a FILE or --print-default");
  if (print_default) {
    std::cout << config::print_default(reconciler_decls());
    return kDone;
  }
  const auto warn = [](const config::Problem& warning) {
    std::cerr << "warning: " << warning.text() << '\n';
  };
  const config::Config config = load_config(arguments.words().front(), {}, ReadOnly::refused, warn);
  std::cout << config::print(config, reconciler_decls());
  return kDone;
}

}  // namespace ff::daemon
