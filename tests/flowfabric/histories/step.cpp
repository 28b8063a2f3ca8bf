#include "histories/step.hpp"

#include <algorithm>

namespace ff::test {
namespace {

bool one_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* one) { return word == one; });
}

}  // namespace

bool claims(const std::string& what) {
  return one_of(what, {"claim", "claim_execution", "issue_grant_and_claim", "claim_resumed_execution",
                       "reclaim_execution"});
}

bool gives_up(const std::string& what) {
  return one_of(what, {"complete", "fail", "delay", "wait_children", "cancel", "complete_execution",
                       "fail_execution", "suspend", "cancel_execution"});
}

bool ends(const std::string& what) {
  return one_of(what, {"complete", "fail", "cancel", "complete_execution", "fail_execution"});
}

bool disturbs(const std::string& what) {
  return claims(what) ||
         one_of(what, {"cancel_execution", "revoke_lease", "replay_execution", "resume_execution",
                       "deliver_signal", "deliver_approval_signal", "cancel_flow", "cancel_flow_header"});
}

bool is_fenced(const std::string& what) {
  return !one_of(what, {"cancel", "cancel_execution", "create_waitpoint", "observe_signals", "report_usage"});
}

std::string to_script(const History& history) {
  std::string text;
  for (const Step& step : history) text += step.dump() + '\n';
  return text;
}

History from_script(std::string_view lines) {
  History history;
  while (!lines.empty()) {
    const auto end = lines.find('\n');
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end == lines.npos ? lines.size() : end + 1);
    if (line.find('{') != line.npos) history.push_back(Json::parse(line));
  }
  return history;
}

}  // namespace ff::test
