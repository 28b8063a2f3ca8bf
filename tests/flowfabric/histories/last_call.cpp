#include "histories/last_call.hpp"

#include <algorithm>
#include <limits>

#include "histories/ageing.hpp"
#include "histories/recount.hpp"

namespace ff::test {
namespace {

/// Longer than anything that a history lets wait.
constexpr int kUnitsARound = 40;
/// A lease lapses, is reclaimed, …: nothing needs more rounds than a chain of dependencies is long.
constexpr int kMostRounds = 12;

// Rows of one execution as they were.
constexpr std::string_view kForget[] = {
    "DELETE FROM ff_attempt WHERE partition_key = $1 AND execution_id = $2",
    "DELETE FROM ff_claim_grant WHERE partition_key = $1 AND execution_id = $2",
    "DELETE FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $2"};
constexpr std::string_view kCore =
    "INSERT INTO ff_exec_core SELECT (jsonb_populate_record(null::ff_exec_core, $1::jsonb)).*";
constexpr std::string_view kAttempt =
    "INSERT INTO ff_attempt SELECT (jsonb_populate_record(null::ff_attempt, $1::jsonb)).*";
constexpr std::string_view kGrant =
    "INSERT INTO ff_claim_grant SELECT (jsonb_populate_record(null::ff_claim_grant, $1::jsonb)).*";

/// By the state that an execution was given back in: see "Giving an execution back".
std::vector<std::string> claims_for(const ExecutionRows& rows) {
  const std::string attempt = rows.text("attempt_state");
  if (rows.text("public_state") == "resumable")
    return {"claim", "claim_resumed_execution", "issue_grant_and_claim"};
  if (attempt == "attempt_interrupted") return {"claim", "issue_grant_and_claim"};
  if (attempt == "pending") return {"claim", "claim_execution"};
  return {"claim", "claim_execution", "issue_grant_and_claim"};
}

std::map<std::string, std::string> states(const Snapshot& snapshot) {
  std::map<std::string, std::string> found;
  for (const auto& [id, rows] : snapshot.executions) found[id] = rows.state();
  return found;
}

}  // namespace

void LastCall::run() {
  run_clocks_out();
  end_ = stage_.everything();
  ask_for_futures();
  check_leases();
  check_workers();
  check_backlogs();
  count_ends();
  recount_groups();
}

void LastCall::run_clocks_out() {
  std::map<std::string, std::string> last;
  for (int round = 0; round < kMostRounds; ++round) {
    stage_.perform({{"do", "age"}, {"ms", units(kUnitsARound)}});
    for (const std::string& reconciler : rescuing_reconcilers())
      stage_.perform({{"do", "tick"}, {"reconciler", reconciler}});
    const Snapshot& now = stage_.everything();
    auto reached = states(now);
    if (now.undispatched == 0 && reached == last) return;
    last = std::move(reached);
  }
}

void LastCall::ask_for_futures() {
  for (const auto& [id, rows] : end_.executions) {
    if (rows.core.is_object() && !rows.ended()) ask_for_a_future(stage_.names_.execution_of(id), rows);
  }
}

void LastCall::ask_for_a_future(const std::string& execution, const ExecutionRows& rows) {
  const std::string phase = rows.text("lifecycle_phase");
  const std::string eligibility = rows.text("eligibility_state");
  const auto stuck = [&](const char* why) {
    stage_.blame({Fault::stuck, execution, rows.state() + ": " + why});
  };
  if (phase == "submitted") return;
  if (phase == "suspended") {
    if (!rows.suspension.is_object()) return stuck("no suspension");
    if (!rows.suspension.at("timeout_at_ms").is_null()) return stuck("its time-out is over");
    return;
  }
  if (phase == "active") return stuck("nobody holds it");
  if (phase == "blocked" || eligibility == "blocked_by_dependencies") {
    if (!something_can_still_end(rows.core.at("execution_id"))) stuck("it waits for nothing that can happen");
    return;
  }
  if (eligibility == "pending_claim") return stuck("nobody comes with the grant");
  if (eligibility != "eligible_now") return stuck("no claim takes it");
  offer_to_every_claim(execution, rows);
}

// Of an upstream about which its groups were told otherwise, what they were told counts.
bool LastCall::something_can_still_end(const std::string& uuid) const {
  return std::any_of(end_.edges.begin(), end_.edges.end(), [&](const Json& edge) {
    if (edge.at("downstream_eid") != uuid || !is_applied(edge)) return false;
    const ExecutionRows& upstream = end_.executions.at(edge.at("upstream_eid"));
    return !upstream.ended() || (misled_by(edge.at("upstream_eid")) && told_of(edge, upstream).empty());
  });
}

void LastCall::offer_to_every_claim(const std::string& execution, const ExecutionRows& rows) {
  for (const std::string& claim : claims_for(rows)) offer(execution, rows, claim);
}

void LastCall::offer(const std::string& execution, const ExecutionRows& rows, const std::string& claim) {
  const std::string id = stage_.names_.executions.at(execution);
  Json request{{"execution", id}, {"lane", execution}, {"worker", "last"}, {"as", "last"}};
  std::string refusal;
  try {
    if (claim == "claim_execution") stage_.flowfabric_.call("write_grant", request);
    const Json lease = stage_.flowfabric_.call(claim, request);
    if (lease.is_null()) {
      refusal = "nothing found";
    } else {
      const bool goes_on =
          rows.text("attempt_state") == "attempt_interrupted" || rows.text("public_state") == "resumable";
      if (goes_on && rows.current_attempt() && lease.at("attempt") != *rows.current_attempt())
        refusal = "goes on at attempt " + lease.at("attempt").dump();
      stage_.flowfabric_.call("renew", {{"handle", "last"}});
    }
  } catch (const FlowFabricError& error) {
    refusal = error.what();
  }
  restore(rows);
  if (!refusal.empty())
    stage_.blame({Fault::refused, execution, claim + " of " + rows.state() + ": " + refusal, claim});
}

void LastCall::restore(const ExecutionRows& rows) {
  pg::Connection& connection = stage_.connection_;
  const auto key = pg::Params::of(rows.core.at("partition_key").get<std::int16_t>(),
                                  *parse_uuid(rows.core.at("execution_id").get<std::string>()));
  for (const std::string_view sql : kForget) connection.execute(sql, key);
  // What read_snapshot() leaves out, and no reconciler reads.
  connection.execute(kCore, pg::Params::of(rows.core.dump()));
  for (const auto& [index, row] : rows.attempts) connection.execute(kAttempt, pg::Params::of(row.dump()));
  for (const Json& row : rows.grants) connection.execute(kGrant, pg::Params::of(row.dump()));
}

void LastCall::check_leases() {
  for (const auto& [id, rows] : end_.executions)
    for (const auto& [index, row] : rows.attempts)
      if (rows.lease_of(index))
        stage_.blame(
            {Fault::unnoticed, stage_.names_.execution_of(id),
             "the lapsed lease of attempt " + std::to_string(index) + " lies there still, " + rows.state()});
}

void LastCall::check_workers() {
  for (const auto& [instance, row] : end_.workers)
    stage_.blame({Fault::unnoticed, instance, "it is silent and still registered"});
}

void LastCall::check_backlogs() {
  if (stage_.options_.rescue != Rescue::daemon) return;
  for (const auto& [id, rows] : end_.executions)
    if (rows.cancel.is_object())
      stage_.blame({Fault::unnoticed, stage_.names_.execution_of(id),
                    "its flow was cancelled and it stands in the backlog still, " + rows.state()});
  if (end_.backlogs > 0)
    stage_.blame({Fault::unnoticed, "flows", std::to_string(end_.backlogs) + " cancels are not worked off"});
}

// One each: of a run that has ended, and of those before a replay.
void LastCall::count_ends() {
  for (const auto& [id, rows] : end_.executions) {
    if (!rows.core.is_object()) continue;
    const std::string execution = stage_.names_.execution_of(id);
    const std::int64_t told = static_cast<std::int64_t>(rows.ends.size());
    const std::int64_t wanted =
        (rows.ended() ? 1 : 0) + (stage_.options_.forgive ? stage_.excluded_.ends_told(execution) : 0);
    if (told != wanted)
      stage_.blame({told < wanted ? Fault::untold : Fault::ended_twice, execution,
                    std::to_string(told) + " ends were told instead of " + std::to_string(wanted) + ", " +
                        rows.state()});
    else if (rows.ended() && !rows.told() && end_.is_waited_for(id))
      stage_.blame(
          {Fault::untold, execution, "somebody waits for its end, and nobody was told, " + rows.state()});
  }
}

const Exclusion* LastCall::misled_by(const std::string& upstream) const {
  if (!stage_.options_.forgive) return nullptr;
  return stage_.excluded_.misleads_groups(stage_.names_.execution_of(upstream));
}

// A cancel that tells nobody is told to who waits.
const Exclusion* LastCall::misled_over(const Json& edge) const {
  const std::string upstream = edge.at("upstream_eid");
  const Exclusion* found = misled_by(upstream);
  if (found != nullptr || !stage_.options_.forgive || end_.waits(edge)) return found;
  return stage_.excluded_.tells_nobody(stage_.names_.execution_of(upstream));
}

// Each applied edge counts once, by the word of its upstream's end; where FlowFabric told it otherwise, or it was applied
// after that end, by what was told since the edge was applied. What was counted anew goes on from there.
Tally LastCall::wanted_of(const std::string& downstream) {
  Tally wanted;
  std::int64_t since = std::numeric_limits<std::int64_t>::min();
  if (const auto anew = stage_.recounted_.find(downstream); anew != stage_.recounted_.end()) {
    wanted.begin_with(anew->second.group);
    since = anew->second.at_ms - stage_.aged_ms_;
  }
  for (const Json& edge : end_.edges) {
    if (edge.at("downstream_eid") != downstream || !is_applied(edge)) continue;
    const ExecutionRows& upstream = end_.executions.at(edge.at("upstream_eid"));
    const Exclusion* exclusion = misled_over(edge);
    if (exclusion != nullptr) stage_.coverage_.note("excluded: " + std::string(exclusion->name));
    const bool is_counted = applied_at(edge) < since;
    std::vector<Word> words = exclusion != nullptr || is_counted || is_late(edge, upstream)
                                  ? told_of(edge, upstream)
                                  : told_by_its_end(upstream);
    if (!is_counted) {
      wanted.add(applied_at(edge), words);
      continue;
    }
    std::erase_if(words, [&](const Word& word) { return word.at_ms < since; });
    wanted.add(words);
  }
  return wanted;
}

void LastCall::recount_groups() {
  for (const auto& [id, group] : end_.groups) {
    std::string difference = wanted_of(id).differs_from(group);
    if (difference.empty() && should_be_recounted(end_, id, group))
      difference = "all are over, and nobody has counted it anew";
    if (!difference.empty())
      stage_.blame({Fault::miscounted, stage_.names_.execution_of(id), difference + ", but " + group.dump()});
  }
}

void Stage::run_out() {
  LastCall(*this).run();
}

}  // namespace ff::test
