#include <exception>

#include "commands.hpp"
#include "last_words.hpp"
#include "program.hpp"

int main(int argc, char** argv) {
  std::set_terminate(ff::daemon::end_with_last_words);
  ff::daemon::occupy_standard_descriptors();
  return ff::daemon::run_program({argv + 1, argv + argc}, ff::daemon::commands());
}
