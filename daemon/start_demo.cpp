#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "commands.hpp"
#include "exit_codes.hpp"

namespace ff::daemon {
namespace {

constexpr const char* kDemoProgram = "ff-reconciler-demo";

/// Where a build and where an installation have it.
std::vector<std::filesystem::path> places() {
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return {here / kDemoProgram, here.parent_path() / "libexec/ff-reconciler" / kDemoProgram};
}

}  // namespace

// A program of its own, which becomes of this one: it is not there in images, and what a daemon runs with has no
// simulation in it.
int demo(const Arguments& arguments) {
  std::vector<std::string> line{kDemoProgram};
  for (const char* option : {"seconds", "database-url"})
    if (const auto value = arguments.text(option))
      line.insert(line.end(), {std::string("--") + option, *value});
  std::vector<char*> pointers;
  pointers.reserve(line.size() + 1);
  for (std::string& argument : line) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  for (const auto& place : places()) {
    ::execv(place.c_str(), pointers.data());
    if (errno == ENOENT) continue;
    std::cerr << "ff-reconcilerd: " << place.string() << " cannot be started: " << std::strerror(errno)
              << '\n';
    return kInternal;
  }
  std::cerr << "ff-reconcilerd: the demo is a program of its own, " << kDemoProgram
            << ", which is not installed here (container images leave it out)\n"
               "-> install the Debian package ff-reconciler, or run `./dev demo` in the sources\n";
  return kUnreachable;
}

}  // namespace ff::daemon
