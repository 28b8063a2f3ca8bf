#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "arguments.hpp"

namespace ff::daemon {

/// Asks a running daemon for its /status, the one of --url or else of the configuration's http.listen, and has `show` print
/// what it says. Returns the exit code: that of `show`; kUnreachable where nothing answers, kProblem where the answer is none of
/// a daemon of this version, both with a line on standard error. Throws config::Invalid.
int ask_running_daemon(const Arguments& arguments,
                       const std::function<int(const nlohmann::ordered_json&)>& show);

}  // namespace ff::daemon
