#pragma once

namespace ff::test {

/// The `main` of a program of tests; arguments are Catch2's. Returns its exit code.
int run_tests(int argc, char** argv);

}  // namespace ff::test
