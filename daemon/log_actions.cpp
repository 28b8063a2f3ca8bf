#include "log_actions.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include "base/host_name.hpp"
#include "base/log_scope.hpp"
#include "report_json.hpp"

namespace ff::daemon {

using nlohmann::ordered_json;

ActionLog::ActionLog(bool on)
    : on_(on), host_(host_name()), log_([] {
        const auto& sinks = spdlog::default_logger()->sinks();
        return std::make_shared<spdlog::logger>(kActionLog, sinks.begin(), sinks.end());
      }()) {}

std::function<void(const std::vector<reconcile::Action>&)> ActionLog::teller() {
  if (!on_) return {};
  return [this, tick = LogScope::current()](const std::vector<reconcile::Action>& actions) {
    for (const reconcile::Action& action : actions) write(action, tick);
  };
}

void ActionLog::write(const reconcile::Action& action, std::uint64_t tick) const {
  const bool ended = action.effect == reconcile::Effect::ended;
  log_->info(dump({{"action", ended ? "ended" : "deleted"},
                   {"execution", execution_json(action.execution)},
                   {"reconciler", action.pair->name},
                   {"outcome", action.outcome},
                   {"reason", action.reason},
                   {"due_at_ms", time_json(action.due_at)},
                   {"at_ms", count(action.at)},
                   {"committed", action.committed ? ordered_json(true) : ordered_json("unknown")},
                   {"partition", action.key.partition.value},
                   {"key", key_json(*action.pair, action.key)},
                   {"host", host_},
                   {"pid", ::getpid()},
                   {"tick", tick == 0 ? ordered_json(nullptr) : ordered_json(tick)}}));
}

}  // namespace ff::daemon
