#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/time.hpp"
#include "pasted.hpp"

namespace ff::daemon {

/// What a daemon says of itself on /status, for people. `now` is our clock, `pasted` makes its commands those of whoever
/// asks. Throws nlohmann::json::exception where a key is missing or of another type.
std::string status_of_daemon(const nlohmann::ordered_json& status, UnixMillis now, const Pasted& pasted);

}  // namespace ff::daemon
