#include "support/run_tests.hpp"

int main(int argc, char** argv) {
  return ff::test::run_tests(argc, argv);
}
