#include <algorithm>

#include "commands.hpp"
#include "demo/demo.hpp"
#include "program.hpp"

// Takes what `ff-reconcilerd demo` takes.
int main(int argc, char** argv) {
  ff::daemon::occupy_standard_descriptors();
  ff::daemon::Command demo = *std::ranges::find(ff::daemon::commands(), "demo", &ff::daemon::Command::name);
  demo.run = ff::daemon::run_demo;
  std::vector<std::string> line{argv + 1, argv + argc};
  line.insert(line.begin(), "demo");
  return ff::daemon::run_program(line, {demo});
}
