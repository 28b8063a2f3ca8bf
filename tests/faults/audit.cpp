#include "faults/audit.hpp"

#include <fmt/format.h>

#include <fstream>

#include "demo/simulation/audit.hpp"
#include "support/engine.hpp"

namespace ff::faults {
namespace {

using namespace std::chrono_literals;
using simulation::Verdict;

// A row that has failed often is left out for a minute and more.
constexpr Milliseconds kSettlingTime = 3min;
// Beyond what a replica with a full pool, its listener and an answer under way holds more than one at rest.
constexpr double kMoreDescriptors = kPoolSize + 6;
constexpr double kMoreMib = 24;
constexpr int kSessions = kReplicas * (kPoolSize + 1);

std::string said(const simulation::OpenWork& left) {
  const std::pair<const char*, std::int64_t> kinds[] = {{"leases", left.leases},
                                                        {"delays", left.delays},
                                                        {"suspensions", left.suspensions},
                                                        {"waitpoints", left.waitpoints},
                                                        {"endings", left.endings},
                                                        {"parents", left.parents},
                                                        {"sibling cancellations", left.sibling_cancellations},
                                                        {"budgets", left.budgets},
                                                        {"workers", left.workers},
                                                        {"quotas", left.quotas}};
  std::string text;
  for (const auto& [kind, number] : kinds)
    if (number > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", number, kind);
  return text;
}

/// `workers`: simulated ones, or real ones.
void require_no_errors(const auto& workers) {
  const std::vector<std::string> errors = workers.errors();
  if (!errors.empty()) throw std::runtime_error("a worker ended before its time: " + errors.front());
}

void finish(auto& workers) {
  workers.finish();
  const bool over =
      test::wait_until([&] { return workers.ended() || !workers.errors().empty(); }, kSettlingTime);
  require_no_errors(workers);
  if (!over) throw std::runtime_error("the workers do not end");
}

void wait_until_nothing_is_left(pg::Connection& db, const simulation::Realm& realm) {
  const auto left = [&] { return simulation::open_work(db, realm, true); };
  if (!test::wait_until([&] { return left().total() == 0; }, kSettlingTime))
    throw std::runtime_error("left are, and nobody moves them: " + said(left()));
}

void settle(World& world, pg::Connection& db) {
  finish(world.load());
  if (world.real_workers() != nullptr) finish(*world.real_workers());
  wait_until_nothing_is_left(db, world.realm());
  if (world.real_workers() != nullptr)
    wait_until_nothing_is_left(db, {RealWorkers::kLane, world.realm().partitions});
}

Verdict holders(World& world) {
  const int holding = world.holders().holding();
  const int refused = world.holders().refused();
  return {.balanced = holding > 0 && refused == 0,
          .question = "no lease of a worker that lives was taken",
          .numbers = fmt::format("{} held throughout, {} taken", holding, refused)};
}

Verdict footprints(World& world, pg::Connection& db, const std::array<Footprint, kReplicas>& before) {
  Verdict verdict{.question = "descriptors, memory and sessions have not grown"};
  for (int i = 0; i < kReplicas; ++i) {
    const Footprint then = before.at(static_cast<std::size_t>(i));
    const Footprint now = world.replicas().footprint(i);
    verdict.numbers += fmt::format("{:.0f} to {:.0f} descriptors, {:.1f} to {:.1f} MiB; ", then.descriptors,
                                   now.descriptors, then.resident_mib, now.resident_mib);
    if (now.descriptors > then.descriptors + kMoreDescriptors ||
        now.resident_mib > then.resident_mib + kMoreMib)
      contradict(verdict, fmt::format("replica {} has grown", i));
  }
  const auto sessions = test::number(db, "SELECT count(*) FROM pg_stat_activity WHERE usename = $1",
                                     pg::Params::of(std::string(kRole)));
  verdict.numbers += fmt::format("{} sessions", sessions);
  if (sessions > kSessions) contradict(verdict, fmt::format("more than {} sessions", kSessions));
  return verdict;
}

Verdict ends(World& world) {
  Verdict verdict{.question = "every replica ends when it is asked to"};
  for (int i = 0; i < kReplicas; ++i) {
    const Milliseconds took = world.replicas().stop(i);
    verdict.numbers += (i == 0 ? "" : ", ") + to_text(took);
    if (took > kShutdownLimit) contradict(verdict, fmt::format("replica {} took {}", i, to_text(took)));
  }
  return verdict;
}

Verdict deadlocks(World& world) {
  Verdict verdict{.question = "the server met no deadlock"};
  int lines = 0;
  for (const auto& path : world.server_logs()) {
    std::ifstream log(path);
    if (!log) throw std::runtime_error("the server has no log");
    for (std::string line; std::getline(log, line); ++lines)
      if (line.find("deadlock detected") != std::string::npos) contradict(verdict, line);
  }
  verdict.numbers = fmt::format("{} lines of its log", lines);
  return verdict;
}

// What a worker was told is done, is; and what it was not told, can be as often as it was not told.
void compare(Verdict& verdict, const char* what, std::int64_t told, std::int64_t untold, std::int64_t found) {
  verdict.numbers += fmt::format("{} {} of {} told, ", found, what, told);
  if (found < told || found > told + untold)
    contradict(verdict,
               fmt::format("{} executions {}, but workers were told so of {}, and did not hear {} times",
                           found, what, told, untold));
}

std::vector<Verdict> as_far_as_known(World& world, pg::Connection& db) {
  Verdict states{
      .question = "every execution is in a legal state, with one event for each end and each lease",
      .numbers = fmt::format("{} rules", simulation::audit_rules().size())};
  for (std::string& line : simulation::audit(db)) contradict(states, std::move(line));
  const simulation::WorkCounts counts = world.load().ledger().counts();
  Verdict work{.question = "no work that was told done is lost, and none is done twice"};
  const auto events = [&](const std::string& outcome) {
    return test::number(db,
                        "SELECT count(*) FROM ff_completion_event e JOIN ff_exec_core c"
                        " USING (partition_key, execution_id) WHERE c.lane_id = $1 AND e.outcome = $2",
                        pg::Params::of(world.realm().name, outcome));
  };
  compare(work, "completed", counts.completed, counts.interrupted, events("success"));
  compare(work, "failed", counts.failed, counts.interrupted, events("failed"));
  work.numbers += fmt::format("{} interrupted", counts.interrupted);
  Verdict ghosts{.question = "whoever comes back too late is refused",
                 .numbers = fmt::format("{} refused", counts.ghosts_refused)};
  if (counts.ghosts_accepted > 0)
    contradict(ghosts, fmt::format("{} went on with a claim taken from them", counts.ghosts_accepted));
  return {states, work, ghosts};
}

Verdict load(World& world) {
  Verdict verdict{.question = "there was a load"};
  const simulation::WorkCounts counts = world.load().ledger().counts();
  verdict.numbers = fmt::format("{} claims, {} crashes, {} suspended, {} flows", counts.claimed,
                                counts.crashed, counts.suspended, counts.flows);
  if (counts.claimed == 0 || counts.crashed == 0) contradict(verdict, "nobody worked, or nobody crashed");
  return verdict;
}

}  // namespace

std::vector<Verdict> audit(World& world, bool after_outages, const std::array<Footprint, kReplicas>& before) {
  auto db = world.connect();
  settle(world, db);
  std::vector<Verdict> verdicts{load(world), holders(world), footprints(world, db, before)};
  if (world.real_workers() != nullptr) {
    std::vector<Verdict> real = world.real_workers()->record().verdicts(db, RealWorkers::kLane);
    std::move(real.begin(), real.end(), std::back_inserter(verdicts));
    world.real_workers()->stop_holding();
    require_no_errors(*world.real_workers());
  }
  world.holders().stop();
  verdicts.push_back(ends(world));
  std::vector<Verdict> books =
      after_outages ? as_far_as_known(world, db)
                    : simulation::check_books(db, world.realm(), world.load().ledger(), true).verdicts;
  std::move(books.begin(), books.end(), std::back_inserter(verdicts));
  verdicts.push_back(deadlocks(world));
  return verdicts;
}

}  // namespace ff::faults
