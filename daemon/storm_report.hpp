#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "reconcile/storm.hpp"

namespace ff::daemon {

/// Storm control in /status.
nlohmann::ordered_json storm_json(const reconcile::StormView& view);

/// The lines of `status --url` about it, read from that; empty where there is nothing to tell.
std::string storm_text(const nlohmann::ordered_json& storm);

}  // namespace ff::daemon
