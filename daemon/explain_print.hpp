#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "explain/facts.hpp"
#include "pasted.hpp"

/// What `explain` prints. Neither form shows payload, result, signals or tokens; texts from the database cannot
/// steer a terminal.
namespace ff::daemon {

std::string explain_text(const explain::Facts& facts, const Pasted& pasted);
nlohmann::ordered_json explain_json(const explain::Facts& facts, const Pasted& pasted);

}  // namespace ff::daemon
