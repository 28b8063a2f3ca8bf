#include "histories/step.hpp"

namespace ff::test {

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
