#include <algorithm>

#include "commands.hpp"
#include "demo/demo.hpp"
#include "program.hpp"

// Takes what `ff-reconcilerd demo` takes.
int main(int argc, char** argv) {
  using namespace ff::daemon;
  Command demo = *std::ranges::find(commands(), "demo", &Command::name);
  demo.run = run_demo;
  std::vector<std::string> line{argv + 1, argv + argc};
  line.insert(line.begin(), "demo");
  return run_program(line, {demo});
}
