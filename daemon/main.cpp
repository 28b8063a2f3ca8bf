#include "commands.hpp"
#include "program.hpp"

int main(int argc, char** argv) {
  return ff::daemon::run_program({argv + 1, argv + argc}, ff::daemon::commands());
}
