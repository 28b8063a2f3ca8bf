#include "storm_report.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/printable.hpp"

namespace ff::daemon {

using nlohmann::ordered_json;

ordered_json storm_json(const reconcile::StormView& view) {
  ordered_json queued = ordered_json::object();
  for (const auto& [reconciler, rows] : view.queued)
    if (rows > 0) queued[reconciler] = rows;
  return {{"on", view.on},
          {"rate", view.rate > 0 ? ordered_json(std::llround(view.rate)) : ordered_json()},
          {"queued", queued},
          {"breaker", view.breaks ? ordered_json(reconcile::name(view.state)) : ordered_json("off")},
          {"open_for_ms", view.open_for ? ordered_json(view.open_for->count()) : ordered_json()},
          {"held", view.held},
          {"leases", view.leases},
          {"leases_lapsed_share", view.leases_lapsed_share},
          {"holders_lapsed_share", view.holders_lapsed_share},
          {"trips", view.trips}};
}

std::string storm_text(const ordered_json& storm) {
  std::string text;
  const std::string breaker = printable(storm.at("breaker").get<std::string>());
  if (breaker == "open")
    text += fmt::format(
        "storm     the breaker is open: no lease is taken for {:.1f} s more, {} or more that lapsed wait\n",
        storm.at("open_for_ms").get<double>() / 1000, storm.at("held").get<std::int64_t>());
  if (breaker == "draining")
    text += "storm     the breaker is draining: what it held is taken, at the rate\n";
  for (const auto& [reconciler, rows] : storm.at("queued").items())
    text += fmt::format("storm     {} rows of {} wait: {} are given back a second\n",
                        rows.get<std::int64_t>(), printable(reconciler), printable(storm.at("rate").dump()));
  return text;
}

}  // namespace ff::daemon
