#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/partition_choice.hpp"
#include "pause/pause.hpp"
#include "reconcile/engine.hpp"

/// The JSON forms that scripts rely on; all commands and pages that show these things use these.
namespace ff::daemon {

template <typename Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json execution_json(const std::optional<ExecutionId>& execution);
/// The key of a row of this pair by the names of its columns.
nlohmann::ordered_json key_json(const reconcile::Reconciler& pair, const reconcile::RowKey& key);
nlohmann::ordered_json counts_json(const reconcile::TickReport& report);
nlohmann::ordered_json time_json(const std::optional<UnixMillis>& at);
/// {"above", "since_ms", "released", "next"}; null where no more is due than may be.
nlohmann::ordered_json hold_json(std::string_view reconciler, const std::optional<reconcile::Hold>& hold);
nlohmann::ordered_json coverage_json(const Coverage& coverage);
/// {"reconciler" ("*": all), "by", "reason", "since_ms", "until_ms", "next"} of each.
nlohmann::ordered_json pauses_json(const std::vector<pause::Pause>& pauses);
/// One line that steers no terminal; bytes that are no UTF-8 are replaced.
std::string dump(const nlohmann::ordered_json& json);

}  // namespace ff::daemon
