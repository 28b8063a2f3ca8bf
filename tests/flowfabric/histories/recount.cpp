#include "histories/recount.hpp"

#include <algorithm>
#include <limits>

namespace ff::test {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

std::string word_of(const std::string& outcome) {
  return outcome == "success" ? "success" : outcome == "skipped" ? "skip" : "fail";
}

// Of the newest event of its present run; where there is none, and its end is old, of its rows.
std::optional<std::string> word_of_present_run(const ExecutionRows& upstream) {
  if (!upstream.core.is_object() || !upstream.ended()) return std::nullopt;
  const auto ended_at = upstream.moment("terminal_at_ms");
  for (auto event = upstream.ends.rbegin(); event != upstream.ends.rend(); ++event)
    if (ended_at && (!upstream.replayed_at_ms || event->at("occurred_at_ms") >= *ended_at ||
                     event->at("committed_at_ms") > *upstream.replayed_at_ms))
      return word_of(event->at("outcome"));
  return std::nullopt;
}

std::vector<Json> applied_edges_to(const Snapshot& snapshot, const std::string& downstream) {
  std::vector<Json> found;
  std::copy_if(snapshot.edges.begin(), snapshot.edges.end(), std::back_inserter(found),
               [&](const Json& edge) { return edge.at("downstream_eid") == downstream && is_applied(edge); });
  return found;
}

}  // namespace

bool is_late(const Json& edge, const ExecutionRows& upstream) {
  const auto ended_at = upstream.moment("terminal_at_ms");
  return upstream.ended() && ended_at && *ended_at <= applied_at(edge);
}

std::string wrongly_recounted(const Snapshot& before, const Json& group) {
  Tally wanted;
  bool any_lives = false;
  bool any_replayed = false;
  for (const Json& edge : applied_edges_to(before, group.at("downstream_eid"))) {
    const ExecutionRows& upstream = before.executions.at(edge.at("upstream_eid"));
    any_replayed = any_replayed || upstream.replayed_at_ms.has_value();
    if (!upstream.ended()) {
      any_lives = true;
      wanted.add(applied_at(edge), {});
      continue;
    }
    const auto word = word_of_present_run(upstream);
    wanted.add(applied_at(edge), word ? std::vector<Word>{{kNever, *word}} : told_by_its_end(upstream));
  }
  if (any_lives && any_replayed) return "one of its upstreams was replayed, and one lives";
  return wanted.differs_from(group);
}

bool should_be_recounted(const Snapshot& end, const std::string& downstream, const Json& group) {
  const ExecutionRows& rows = end.executions.at(downstream);
  const std::string phase = rows.text("lifecycle_phase");
  if (group.at("running_count") == 0 || group.at("cancel_siblings_pending_flag") == true) return false;
  if (phase != "submitted" && phase != "runnable" && phase != "blocked") return false;
  if (rows.replayed_at_ms && rows.text("eligibility_state") != "blocked_by_dependencies") return false;
  for (const Json& edge : end.edges)
    if (edge.at("downstream_eid") == downstream && !is_applied(edge)) return false;
  const auto edges = applied_edges_to(end, downstream);
  return !edges.empty() && std::all_of(edges.begin(), edges.end(), [&](const Json& edge) {
    return word_of_present_run(end.executions.at(edge.at("upstream_eid"))).has_value();
  });
}

bool is_applied(const Json& edge) {
  return edge.at("policy").value("edge_state", "") != "pending";
}

std::int64_t applied_at(const Json& edge) {
  return edge.at("policy").at("applied_at_ms");
}

std::vector<Word> told_of(const Json& edge, const ExecutionRows& upstream) {
  std::vector<Word> words;
  for (const Json& event : upstream.ends) {
    const Json& dispatched = event.at("dispatched_at_ms");
    const std::int64_t at = dispatched.is_null() ? kNever : dispatched.get<std::int64_t>();
    if (at >= applied_at(edge)) words.push_back({at, word_of(event.at("outcome"))});
  }
  return words;
}

std::vector<Word> told_by_its_end(const ExecutionRows& upstream) {
  if (!upstream.ended()) return {};
  const bool success =
      std::any_of(upstream.attempts.begin(), upstream.attempts.end(), [&](const auto& entry) {
        return entry.second.at("outcome") == "success" &&
               entry.second.at("terminal_at_ms") == upstream.core.at("terminal_at_ms");
      });
  const bool skipped = upstream.text("public_state") == "skipped";
  return {{kNever, skipped ? "skip" : success ? "success" : "fail"}};
}

void Tally::begin_with(const Json& group) {
  for (const char* word : {"success", "fail", "skip"})
    counts_[word] += group.at(std::string(word) + "_count").get<std::int64_t>();
  changes_.emplace(std::numeric_limits<std::int64_t>::min(), group.at("running_count").get<int>());
}

void Tally::add(std::int64_t applied_at_ms, const std::vector<Word>& words) {
  changes_.emplace(applied_at_ms, 1);
  add(words);
}

void Tally::add(const std::vector<Word>& words) {
  for (const Word& word : words) {
    changes_.emplace(word.at_ms, -1);
    ++counts_[word.word];
  }
}

std::int64_t Tally::running() const {
  std::int64_t running = 0;
  for (const auto& [at, change] : changes_) running = std::max<std::int64_t>(running + change, 0);
  return running;
}

std::string Tally::differs_from(const Json& group) const {
  std::string wanted;
  bool same = true;
  const auto compare = [&](const char* column, std::int64_t count) {
    same = same && group.at(column) == count;
    wanted += (wanted.empty() ? "" : ", ") + std::string(column) + " should be " + std::to_string(count);
  };
  const auto count_of = [&](const char* word) {
    const auto found = counts_.find(word);
    return found == counts_.end() ? 0 : found->second;
  };
  compare("success_count", count_of("success"));
  compare("fail_count", count_of("fail"));
  compare("skip_count", count_of("skip"));
  compare("running_count", running());
  return same ? "" : wanted;
}

}  // namespace ff::test
