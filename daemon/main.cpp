#include "commands.hpp"
#include "program.hpp"

int main(int argc, char** argv) {
  ff::daemon::occupy_standard_descriptors();
  return ff::daemon::run_program({argv + 1, argv + argc}, ff::daemon::commands());
}
