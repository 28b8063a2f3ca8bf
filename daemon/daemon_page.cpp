// What the daemon knows of itself, for the status page.
#include "authority.hpp"
#include "build_info.hpp"
#include "config/options.hpp"
#include "config/print.hpp"
#include "configuration.hpp"
#include "daemon.hpp"

namespace ff::daemon {

std::optional<UnixMillis> Daemon::recovering_until() const {
  const auto rest = monitor_.recovering_for();
  return rest ? std::optional(clock_.wall() + *rest) : std::nullopt;
}

page::Model Daemon::page_model() {
  page::Model model;
  model.now = clock_.wall();
  model.version = kVersion;
  model.address = "http://" + authority(reachable(config_.http.host), http_port_);
  model.database = connector_.description();
  model.config_file = config_file_;
  model.alive = alive();
  model.board = board_.snapshot();
  model.state_since = chronicle_.state_since();
  model.recovering_until = recovering_until();
  model.storm = storm_.view();
  model.events = chronicle_.events();
  model.pool = pool_.state();
  const std::lock_guard lock(mutex_);
  for (const config::Reconciler& its : current_.reconcilers) {
    const StatusBoard::Entry& entry = model.board.reconcilers.at(its.name);
    model.reconcilers.push_back({its.name, its.enabled,
                                 count(entry.last_tick) > 0 ? std::optional(entry) : std::nullopt,
                                 chronicle_.history(its.name),
                                 !pause::covering(model.board.pauses, its.name).empty(), entry.running});
  }
  model.configuration = config::print(current_, reconciler_decls());
  model.configuration_refused = reload_refused_;
  model.wanting_restart = config::restart_needed(config_, current_);
  return model;
}

HttpReply Daemon::page(std::optional<Milliseconds> renewed_every) {
  page::Model model = page_model();
  model.renewed_every = renewed_every;
  return page::reply(model);
}

}  // namespace ff::daemon
