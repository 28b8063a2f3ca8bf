#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "arguments.hpp"
#include "daemon_url.hpp"

namespace ff::daemon {

/// The daemon of this option's URL, or else of the configuration's http.listen: that on this machine. Throws UsageError and
/// config::Invalid.
DaemonUrl daemon_to_ask(const Arguments& arguments, const std::string& option);

/// Asks a running daemon for its /status, the one of --url or else of the configuration's http.listen, and has `show` print
/// what it says. Returns the exit code: that of `show`; kUnreachable where nothing answers, kProblem where the answer is none of
/// a daemon of this version, both with a line on standard error. Throws UsageError and config::Invalid.
int ask_running_daemon(const Arguments& arguments,
                       const std::function<int(const nlohmann::ordered_json&)>& show);

/// The same for who can do without: nothing where no daemon of this version answers within a second. With --url that is said on
/// standard error. Throws config::Invalid.
std::optional<nlohmann::ordered_json> try_to_ask_running_daemon(const Arguments& arguments);

}  // namespace ff::daemon
