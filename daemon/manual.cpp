#include "manual.hpp"

#include <iostream>

#include "commands.hpp"
#include "configuration.hpp"
#include "exit_codes.hpp"

namespace ff::daemon {

int manual(const Arguments& arguments, const std::vector<Command>& commands) {
  const std::string& wanted = arguments.words().front();
  if (wanted == "ff-reconcilerd.8")
    std::cout << daemon_page(commands);
  else if (wanted == "ff-reconciler.yaml.5")
    std::cout << configuration_page(reconciler_decls());
  else if (wanted == "bash-completion")
    std::cout << bash_completion(commands, reconciler_decls());
  else
    throw UsageError("manual: there is no " + in_quotes(wanted) +
                     " (allowed: ff-reconcilerd.8, ff-reconciler.yaml.5, bash-completion)");
  return kDone;
}

}  // namespace ff::daemon
