#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "config/load.hpp"

namespace ff::config::samples {

/// A file in the system's temporary directory that goes away with this object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) {
    const char* directory = std::getenv("TMPDIR");
    path_ = std::string(directory ? directory : "/tmp") + "/ff-config-XXXXXX";
    const int fd = mkstemp(path_.data());
    if (fd < 0) throw std::runtime_error("no temporary file");
    close(fd);
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Three reconcilers that between them have every kind of setting; the last one cannot be filtered.
inline const std::vector<ReconcilerDecl>& decls() {
  using Kind = SettingDecl::Kind;
  static const std::vector<ReconcilerDecl> all{
      {"attempt_timeout",
       "ends attempts",
       true,
       Milliseconds{2000},
       1000,
       true,
       {{"grace", Kind::duration, 0, 0, 3'600'000, false, "beyond the lease"}}},
      {"lease_expiry",
       "frees leases",
       true,
       Milliseconds{1500},
       1000,
       true,
       {{"max_reclaims", Kind::count, 3, 0, 1'000'000, true, "by the next worker"},
        {"include_waiting", Kind::flag, 0, 0, 1, false, "those that wait as well"}}},
      {"budget_reset", "resets budgets", false, Milliseconds{15'000}, 500, false, {}},
  };
  return all;
}

using Environment = std::map<std::string, std::string>;

inline Config load_yaml(const std::string& yaml, const Environment& environment = {},
                        const std::vector<Override>& overrides = {}) {
  const TemporaryFile file(yaml);
  return load({file.path(), environment, overrides}, decls());
}

/// What is wrong with the sources; nothing when they load.
inline std::vector<Problem> problems_of(const Sources& sources) {
  try {
    load(sources, decls());
  } catch (const Invalid& invalid) {
    return invalid.problems();
  }
  return {};
}

inline std::vector<Problem> problems_in(const std::string& yaml, const Environment& environment = {},
                                        const std::vector<Override>& overrides = {}) {
  const TemporaryFile file(yaml);
  return problems_of({file.path(), environment, overrides});
}

/// Whether `yaml` has exactly one problem, at this line and key, with `part` in its message.
inline bool only_problem(const std::string& yaml, int line, const std::string& key, const std::string& part) {
  const std::vector<Problem> problems = problems_in(yaml);
  if (problems.size() == 1 && problems[0].line == line && problems[0].key == key &&
      problems[0].message.find(part) != std::string::npos)
    return true;
  for (const Problem& problem : problems) std::fprintf(stderr, "problem: %s\n", problem.text().c_str());
  return false;
}

}  // namespace ff::config::samples
