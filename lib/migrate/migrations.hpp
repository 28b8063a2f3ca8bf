#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ff::migrate {

/// One file of migrations/, embedded at build time.
struct Migration {
  int version;  // 1, 2, 3, … without gaps
  std::string_view name;
  std::string_view sql;
  std::string_view checksum;  // SHA-256 of the file, in hex

  /// It makes a table of our own and nothing else: its name says so, own_pause makes ff_reconciler_pause. The
  /// reconcilers run without it, and FlowFabric's database gets it, too.
  bool is_own() const { return name.starts_with("own_"); }
  std::string own_table() const { return "ff_reconciler_" + std::string(name.substr(4)); }
};

/// All of them, in order of version. The definition is generated (embed.cmake).
const std::vector<Migration>& migrations();

/// A part of a migration that is sent to the server in one message.
struct Step {
  std::string_view sql;
  /// A CALL: it commits by itself as it goes, so that it can stand in no transaction of ours.
  bool commits_itself;
};

/// Splits a migration's text at the lines that begin with "CALL ": each of these is a step, and so is
/// everything between two of them. The views point into `sql`.
std::vector<Step> steps(std::string_view sql);

}  // namespace ff::migrate
