#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "config/problem.hpp"

namespace ff::config {

/// A value from the command line.
struct Override {
  std::string flag;   ///< as the operator wrote it: --database-url
  std::string path;   ///< the option: database.url
  std::string value;  ///< as it would stand in the file
};

/// Where a configuration comes from; what stands further down in this list wins.
struct Sources {
  std::optional<std::string> file;
  /// The whole environment. Read are FF_RECONCILER_<PATH> (environment_name()), FF_DATABASE_URL and
  /// FF_DATABASE_URL_FILE; an empty one counts as not set.
  std::map<std::string, std::string> environment;
  std::vector<Override> overrides;
  /// What is wrong with how the database is to be reached, in words that hold no secret; empty: nothing. Not asked where a
  /// part of it has been refused already. Empty: everything is fine. Throws Invalid where it lies elsewhere.
  std::function<std::string(const Database&)> check_database = {};
  /// What may come right by itself, such as a file that is not there yet; asked where nothing is wrong. Likewise.
  std::function<std::vector<std::string>(const Database&)> database_warnings = {};
  /// Takes what refuses nothing, but is worth a look. Empty: nobody wants to know.
  std::function<void(const Problem&)> warn = {};
};

/// Reads, merges and checks. Throws Invalid with everything that is wrong in all sources at once: every value
/// is checked, also one that a later source replaces. `url` and `url_file` (and `password` and
/// `password_file`) replace each other across sources and contradict each other within one. The file behind
/// `url_file` is read here.
Config load(const Sources& sources, const std::vector<ReconcilerDecl>& decls);

}  // namespace ff::config
