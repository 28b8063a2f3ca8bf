#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

/// Small models, gone through to the last state, and the ways through them: to be taken with the real statements. A model
/// has a State that can be ordered, a Step, and
///
///     std::vector<Step> steps(const State&) const;         // what may happen next
///     State after(const State&, const Step&) const;        // what it leads to
///     std::string fault(const State&) const;               // what is wrong with a state; empty: nothing
namespace ff::model {

template <class Model>
using Trace = std::vector<typename Model::Step>;

/// A state and a way to it, the shortest.
template <class Model>
using Reached = std::map<typename Model::State, Trace<Model>>;

/// Every state that the first one leads to.
template <class Model>
Reached<Model> reached(const Model& model) {
  Reached<Model> found{{typename Model::State{}, {}}};
  std::deque<typename Model::State> left{typename Model::State{}};
  for (; !left.empty(); left.pop_front()) {
    const auto from = left.front();
    for (const auto& step : model.steps(from)) {
      Trace<Model> way = found.at(from);
      way.push_back(step);
      if (const auto to = model.after(from, step); found.emplace(to, std::move(way)).second)
        left.push_back(to);
    }
  }
  return found;
}

/// The shortest way to a state with a fault; empty: none has one.
template <class Model>
Trace<Model> way_to_fault(const Model& model) {
  Trace<Model> shortest;
  for (const auto& [state, way] : reached(model))
    if (!model.fault(state).empty() && (shortest.empty() || way.size() < shortest.size())) shortest = way;
  return shortest;
}

/// Ways from the first state that between them take each step from each state. A way goes on with steps that no other
/// has taken for as long as there are any.
template <class Model>
std::vector<Trace<Model>> all_steps(const Model& model) {
  const Reached<Model> found = reached(model);
  std::set<std::pair<typename Model::State, std::size_t>> taken;
  std::vector<Trace<Model>> ways;
  for (const auto& [begin, way] : found) {
    for (std::size_t first = 0; first < model.steps(begin).size(); ++first) {
      if (!taken.emplace(begin, first).second) continue;
      Trace<Model>& its = ways.emplace_back(way);
      auto state = begin;
      for (std::size_t next = first;;) {
        its.push_back(model.steps(state)[next]);
        state = model.after(state, its.back());
        const std::size_t count = model.steps(state).size();
        for (next = 0; next < count && !taken.emplace(state, next).second;) ++next;
        if (next == count) break;
      }
    }
  }
  return ways;
}

}  // namespace ff::model
