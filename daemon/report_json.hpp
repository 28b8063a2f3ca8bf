#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/partition_choice.hpp"
#include "reconcile/engine.hpp"

/// The JSON forms that scripts rely on; all commands and pages that show these things use these.
namespace ff::daemon {

nlohmann::ordered_json counts_json(const reconcile::TickReport& report);
nlohmann::ordered_json time_json(const std::optional<UnixMillis>& at);
nlohmann::ordered_json coverage_json(const Coverage& coverage);
/// One line that steers no terminal; bytes that are no UTF-8 are replaced.
std::string dump(const nlohmann::ordered_json& json);

}  // namespace ff::daemon
