#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "arguments.hpp"

namespace ff::daemon {

/// Asks a running daemon for its /status, the one of --url or else of the configuration's http.listen, and has `show` print
/// what it says. Returns the exit code: that of `show`; kUnreachable where nothing answers, kProblem where the answer is none of
/// a daemon of this version, both with a line on standard error. Throws config::Invalid.
int ask_running_daemon(const Arguments& arguments,
                       const std::function<int(const nlohmann::ordered_json&)>& show);

/// The same for who can do without: nothing where no daemon of this version answers within a second. With --url that is said on
/// standard error. Throws config::Invalid.
std::optional<nlohmann::ordered_json> try_to_ask_running_daemon(const Arguments& arguments);

}  // namespace ff::daemon
