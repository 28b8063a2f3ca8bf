#pragma once

#include <string>

#include "arguments.hpp"

namespace ff::daemon {

/// Makes lines to paste whole: a command of ours is to have the configuration file that was given to the one that
/// prints it, also where it asks a daemon by its URL: it may print lines to paste in its turn. What is no command of ours, or
/// where there is no file, stays as it is.
class Pasted {
 public:
  /// `config_file`: a path, or empty.
  explicit Pasted(std::string config_file = {}) : config_file_(std::move(config_file)) {}
  /// With `--config` of a command line, made absolute.
  explicit Pasted(const Arguments& arguments);

  std::string operator()(std::string command) const;

 private:
  std::string config_file_;
};

}  // namespace ff::daemon
