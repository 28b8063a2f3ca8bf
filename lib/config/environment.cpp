#include <algorithm>

#include "base/nearest.hpp"
#include "base/text.hpp"
#include "config/loader.hpp"

namespace ff::config {
namespace {

constexpr std::string_view kPrefix = "FF_RECONCILER_";

/// Kubernetes gives every container of a namespace variables for each Service in it: one that is named
/// `ff-reconciler` makes FF_RECONCILER_SERVICE_HOST, FF_RECONCILER_PORT and FF_RECONCILER_PORT_9464_TCP_ADDR.
bool is_made_by_kubernetes(std::string_view name) {
  constexpr std::string_view kPort = "_PORT";
  if (name.find("_SERVICE_HOST") != name.npos || name.find("_SERVICE_PORT") != name.npos) return true;
  if (name.ends_with(kPort)) return true;
  const std::size_t port = name.find("_PORT_");
  const std::size_t number = port + kPort.size() + 1;
  return port != name.npos && number < name.size() && is_digit(name[number]);
}

// By what is behind the prefix: with it, all of them would be alike.
std::string nearest_variable(std::string_view name, const std::vector<std::string>& names) {
  std::vector<std::string> rests;
  rests.reserve(names.size());
  for (const std::string& each : names) rests.push_back(each.substr(kPrefix.size()));
  const std::string meant = nearest(name.substr(kPrefix.size()), rests);
  return meant.empty() ? meant : std::string(kPrefix) + meant;
}

}  // namespace

void Loader::read_environment(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> names;
  for (const Option& option : options_) names.push_back(environment_name(option.path));
  for (const auto& [name, value] : variables) {
    if (value.empty()) continue;
    const Origin origin{2, "environment", 0, name};
    const auto known = std::find(names.begin(), names.end(), name);
    if (name == "FF_DATABASE_URL") {
      read_text(*find("database.url"), value, origin);
    } else if (name == "FF_DATABASE_URL_FILE") {
      read_text(*find("database.url_file"), value, origin);
    } else if (known != names.end()) {
      read_text(options_[static_cast<std::size_t>(known - names.begin())], value, origin);
    } else if (name.starts_with(kPrefix) && !is_made_by_kubernetes(name)) {
      // The value is not repeated: it may be a password under a misspelled name.
      const std::string meant = nearest_variable(name, names);
      blame(origin, {},
            "unknown variable" + (meant.empty() ? "" : ", did you mean " + meant + "?") +
                " (allowed: FF_RECONCILER_ and an option's path, as in " +
                environment_name("database.pool_size") + ")");
    }
  }
}

}  // namespace ff::config
