#include "histories/trial.hpp"

#include <algorithm>

namespace ff::test {
namespace {

Trial result_of(Stage& stage, History history) {
  return {std::move(history), stage.verdicts(), stage.executions(), stage.coverage()};
}

History without(const History& history, std::size_t from, std::size_t to) {
  History rest(history.begin(), history.begin() + static_cast<std::ptrdiff_t>(from));
  rest.insert(rest.end(), history.begin() + static_cast<std::ptrdiff_t>(to), history.end());
  return rest;
}

}  // namespace

Trial invent(const StageOptions& stage_options, const GeneratorOptions& options) {
  Stage stage(stage_options);
  History history = Generator(stage, options).play();
  stage.run_out();
  return result_of(stage, std::move(history));
}

Trial replay(const StageOptions& options, const History& history, bool run_out) {
  Stage stage(options);
  for (const Step& step : history) stage.perform(step);
  if (run_out) stage.run_out();
  return result_of(stage, history);
}

History shrink(const History& history, const std::function<bool(const History&)>& fails, int at_most) {
  History shortest = history;
  for (std::size_t piece = std::max<std::size_t>(shortest.size() / 2, 1); at_most > 0;) {
    bool shorter = false;
    for (std::size_t from = 0; from < shortest.size() && at_most > 0;) {
      History tried = without(shortest, from, std::min(from + piece, shortest.size()));
      --at_most;
      if (fails(tried)) {
        shortest = std::move(tried);
        shorter = true;
      } else {
        from += piece;
      }
    }
    if (piece == 1 && !shorter) break;
    piece = std::max<std::size_t>(std::min(piece / 2, shortest.size()), 1);
  }
  return shortest;
}

std::string report(const Trial& trial) {
  std::string text;
  for (const Verdict& verdict : trial.verdicts) text += to_text(verdict) + '\n';
  return text + "\nhistory:\n" + to_script(trial.history);
}

}  // namespace ff::test
