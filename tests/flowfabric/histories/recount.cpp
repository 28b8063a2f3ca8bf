#include "histories/recount.hpp"

#include <algorithm>
#include <limits>

namespace ff::test {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

std::string word_of(const std::string& outcome) {
  return outcome == "success" ? "success" : outcome == "skipped" ? "skip" : "fail";
}

}  // namespace

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

void Tally::add(std::int64_t applied_at_ms, const std::vector<Word>& words) {
  changes_.emplace(applied_at_ms, 1);
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
