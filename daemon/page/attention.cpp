#include "page/attention.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/duration.hpp"
#include "base/ids.hpp"
#include "explain/words.hpp"
#include "page/markup.hpp"
#include "pasted.hpp"
#include "pg/sqlstate.hpp"
#include "reconcile/holders.hpp"
#include "reconcile/reconciler.hpp"
#include "way_to_lift.hpp"

namespace ff::daemon::page {
namespace {

using namespace std::chrono_literals;
using List = std::vector<Attention>;

// As the alert FfReconcilerBacklog has it.
constexpr Milliseconds kMuchTooLate = 300s;

void add_scheduler(const Model& model, List& list) {
  if (model.alive) return;
  list.push_back({Severity::problem, "The scheduler makes no progress, so /livez answers 503",
                  "A tick takes longer than a tick can, or the machine has no time for the process."});
}

void add_state(const Model& model, List& list) {
  const auto& board = model.board;
  if (board.state == supervisor::State::stopping) {
    list.push_back({Severity::warning, "It is stopping", board.reason});
  } else if (board.state == supervisor::State::recovering) {
    list.push_back(
        {Severity::warning,
         model.recovering_until && *model.recovering_until > model.now
             ? fmt::format("Recovering: no lease is taken until {} UTC", clock_text(*model.recovering_until))
             : "Recovering: leases are taken as soon as the database has been checked again",
         board.reason.empty()
             ? "By the database's clock leases may have lapsed that their workers could not renew."
             : board.reason});
  } else if (!is_ready(board.state)) {
    list.push_back({Severity::problem,
                    fmt::format("Not ready: {}", name(board.state)),
                    board.reason,
                    {"ff-reconcilerd check-db"}});
  } else if (!board.reason.empty()) {
    list.push_back(
        {Severity::warning, "Ready, but not everything is well", board.reason, {"ff-reconcilerd check-db"}});
  }
}

void add_pauses(const Model& model, List& list) {
  for (const pause::Pause& pause : model.board.pauses)
    list.push_back({Severity::warning,
                    pause.reconciler == pause::kAll ? std::string("All reconcilers are paused")
                                                    : pause.reconciler + " is paused",
                    pause::text_of(pause, model.now),
                    {way_to_lift(pause.reconciler)}});
}

void add_holds(const Model& model, List& list) {
  for (const ReconcilerView& view : model.reconcilers) {
    if (!view.held() || view.paused) continue;
    const reconcile::Hold& hold = *view.seen->last.hold;
    list.push_back(
        {Severity::problem,
         fmt::format("{} holds: more than {} are due", view.name, rows_text(hold.above)),
         fmt::format("That is more than hold_above allows, since {} UTC by the database's clock. See what "
                     "is due, and let it go on if it is meant to be.",
                     clock_text(hold.since)),
         {fmt::format("ff-reconcilerd tick {} --dry-run", view.name), "ff-reconcilerd resume " + view.name}});
  }
}

void add_storm(const Model& model, List& list) {
  const reconcile::StormView& storm = model.storm;
  if (storm.state == reconcile::Breaker::State::open)
    list.push_back(
        {Severity::problem,
         fmt::format("The breaker is open: no lease is taken for {} more",
                     spoken_duration(storm.open_for.value_or(0ms))),
         fmt::format("{} or more have lapsed, of many workers at once, as if the network had died and not "
                     "the workers. Who lives renews its leases; what is left is taken then.",
                     rows_text(storm.held))});
  if (storm.state == reconcile::Breaker::State::draining)
    list.push_back({Severity::warning, "The breaker is draining",
                    "Leases that lapsed before or while it was open are taken now, at the rate."});
  for (const auto& [reconciler, rows] : storm.queued)
    if (rows > 0)
      list.push_back(
          {Severity::warning, fmt::format("{}: {} wait for the rate", reconciler, rows_text(rows)),
           fmt::format("More is due than the {:.0f} rows a second that may be given back (storm.rate). Each "
                       "namespace has its turn.",
                       storm.rate)});
}

void add_pauses_unread(const Model& model, List& list) {
  if (model.board.pauses_unread.empty()) return;
  list.push_back({Severity::warning,
                  "What is paused cannot be read: what is known of it holds, and nothing more",
                  model.board.pauses_unread,
                  {"ff-reconcilerd check-db"}});
}

void add_failures(const Model& model, List& list) {
  for (const ReconcilerView& view : model.reconcilers) {
    if (!view.enabled || view.paused || !view.seen ||
        view.seen->consecutive_failures < StatusBoard::kFaultyFrom)
      continue;
    list.push_back({Severity::problem,
                    fmt::format("{}: failed {} times in a row", view.name, view.seen->consecutive_failures),
                    failure_text(view.seen->last.failure ? view.seen->last.failure->sqlstate() : "",
                                 view.seen->last_failure),
                    {"ff-reconcilerd check-db", fmt::format("ff-reconcilerd tick {} --dry-run", view.name)}});
  }
}

void add_quarantine(const Model& model, List& list) {
  for (const ReconcilerView& view : model.reconcilers) {
    const auto rows = static_cast<std::int64_t>(view.quarantined());
    if (rows == 0) continue;
    Attention it{Severity::warning, fmt::format("{}: {} in quarantine because {}", view.name,
                                                rows == 1 ? "1 row is" : rows_text(rows) + " are",
                                                rows == 1 ? "it fails by itself" : "each fails by itself")};
    it.paste.push_back("ff-reconcilerd quarantine --url " + model.address);
    if (!view.seen->last.quarantine_rows.empty()) {
      const reconcile::QuarantinedRow& first = view.seen->last.quarantine_rows.front();
      it.why = failure_text(first.sqlstate, first.message);
      for (std::string& command : commands_for(view.name, first)) it.paste.push_back(std::move(command));
    }
    list.push_back(std::move(it));
  }
}

void add_held_rows(const Model& model, List& list) {
  for (const ReconcilerView& view : model.reconcilers) {
    if (!view.enabled || view.paused || !view.seen) continue;
    for (const reconcile::HeldRow& row : view.seen->last.held) {
      Attention it{Severity::warning,
                   fmt::format("{}: a row that is due has been passed over for {}", view.name,
                               spoken_duration(row.held_for)),
                   "Somebody who is not to be seen has locked it, or it is promised to a worker."};
      if (!row.holders.empty())
        it.why =
            explain::who(row.holders.front(), model.now) + " holds a row in " + row.holders.front().table;
      if (row.execution) it.paste.push_back(explain::explain(*row.execution));
      list.push_back(std::move(it));
    }
  }
}

void add_lateness(const Model& model, List& list) {
  for (const ReconcilerView& view : model.reconcilers) {
    const auto waited = late_by(view, model.now);
    if (!waited) continue;
    const std::string rows =
        rows_text(view.left()) + " due" + (view.has_more() ? ", and more not read yet" : "");
    list.push_back(
        {*waited >= kMuchTooLate ? Severity::problem : Severity::warning,
         fmt::format("{} is late: its oldest due row has waited for {}", view.name, spoken_duration(*waited)),
         rows + ". Somebody holds them, or they are more than it can move.",
         {"ff-reconcilerd status", fmt::format("ff-reconcilerd tick {} --dry-run", view.name)}});
  }
}

void add_connections(const Model& model, List& list) {
  if (model.pool.waiting == 0) return;
  list.push_back({Severity::warning,
                  model.pool.waiting == 1 ? std::string("1 tick waits for a connection")
                                          : fmt::format("{} ticks wait for a connection", model.pool.waiting),
                  fmt::format("All {} of database.pool_size are in use.", model.pool.size)});
}

void add_configuration(const Model& model, List& list) {
  if (model.configuration_refused)
    list.push_back({Severity::warning,
                    "The file was refused at the last reload: the earlier configuration holds",
                    "",
                    {"ff-reconcilerd check-config"}});
  if (!model.wanting_restart.empty())
    list.push_back({Severity::warning, "Some settings have changed and wait for a restart",
                    fmt::format("{}", fmt::join(model.wanting_restart, ", "))});
}

// A line for each kind.
constexpr void (*kAll[])(const Model&, List&) = {
    add_scheduler, add_state,      add_pauses,    add_pauses_unread, add_holds,       add_storm,
    add_failures,  add_quarantine, add_held_rows, add_lateness,      add_connections, add_configuration,
};

}  // namespace

std::vector<Attention> needs_attention(const Model& model) {
  List list;
  for (const auto add : kAll) add(model, list);
  std::ranges::stable_sort(list, std::ranges::greater{}, &Attention::severity);
  for (Attention& it : list)
    for (std::string& command : it.paste) command = with_config(model, std::move(command));
  return list;
}

std::string with_config(const Model& model, std::string command) {
  return Pasted(model.config_file)(std::move(command));
}

std::vector<std::string> commands_for(std::string_view reconciler, const reconcile::QuarantinedRow& row) {
  // What goes into a shell is a uuid and nothing else.
  if (!row.execution) return {};
  return {explain::explain(*row.execution), explain::tick(reconciler, *row.execution)};
}

std::string failure_text(std::string_view sqlstate, std::string_view message) {
  if (sqlstate.empty() || message.find(sqlstate) != std::string_view::npos) return std::string(message);
  return fmt::format("{} (SQLSTATE {})", message, pg::named_sqlstate(std::string(sqlstate)));
}

}  // namespace ff::daemon::page
