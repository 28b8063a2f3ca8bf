#include "histories/coverage.hpp"

namespace ff::test {
namespace {

/// By these an operation comes in kinds.
constexpr const char* kKinds[] = {"attempt_state",    "class", "on_satisfied", "policy", "runnable", "table",
                                  "timeout_behavior", "typed", "apply",        "behind"};
/// And by whether these are there, and not 0.
constexpr const char* kAmounts[] = {"backoff_ms",      "deadline_in_ms", "delay_in_ms",       "handle",
                                    "max_retries",     "pending",        "reset_interval_ms", "flow",
                                    "resume_delay_ms", "timeout_in_ms",  "waitpoints"};

}  // namespace

void Coverage::note(const Step& step, const Json& told) {
  const std::string what = step.at("do");
  note(what);
  for (const char* field : kKinds)
    if (step.contains(field)) {
      const Json& value = step.at(field);
      note(what + ' ' + field + '=' + (value.is_string() ? value.get<std::string>() : value.dump()));
    }
  for (const char* field : kAmounts)
    if (step.contains(field)) note(what + (step.at(field) == 0 ? " without " : " with ") + field);
  // Of "Refreshed { … }" only the word.
  if (told.is_object() && told.contains("outcome") && told.at("outcome").is_string()) {
    const std::string outcome = told.at("outcome");
    note(what + ": " + outcome.substr(0, outcome.find(' ')));
  }
}

void Coverage::add(const Coverage& other) {
  for (const auto& [word, times] : other.counts_) counts_[word] += times;
}

std::int64_t Coverage::of(const std::string& word) const {
  const auto found = counts_.find(word);
  return found == counts_.end() ? 0 : found->second;
}

std::string Coverage::to_text() const {
  std::string text;
  for (const auto& [word, times] : counts_) text += std::to_string(times) + "  " + word + '\n';
  return text;
}

}  // namespace ff::test
