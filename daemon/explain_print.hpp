#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "explain/facts.hpp"

/// What `explain` prints. Neither form shows payload, result, signals or tokens; texts from the database cannot
/// steer a terminal.
namespace ff::daemon {

std::string explain_text(const explain::Facts& facts);
nlohmann::ordered_json explain_json(const explain::Facts& facts);

}  // namespace ff::daemon
