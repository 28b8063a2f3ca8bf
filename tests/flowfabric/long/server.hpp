#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "support/process.hpp"

namespace ff::test {

/// FlowFabric's own server over one database, with its scanners as slow as the README says. Killed with the
/// object, and with the thread that made it.
class OwnServer {
 public:
  /// Ready when this returns. Throws std::runtime_error with the end of what it said when it does not become so.
  OwnServer(const std::filesystem::path& program, const std::string& url);

  bool healthy();
  /// SIGTERM. How it ended, and nothing where it does not end.
  std::optional<int> stop();
  std::string log() const;

 private:
  std::unique_ptr<Process> process_;
  unsigned short port_ = 0;
};

}  // namespace ff::test
