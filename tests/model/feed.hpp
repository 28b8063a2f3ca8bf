#pragma once

#include <algorithm>
#include <compare>
#include <set>
#include <string>
#include <vector>

/// Transactions that draw an id each and commit in any order, or never, and a reader that looks now and then. What it has
/// delivered it never goes back behind: may it deliver what it sees?
namespace ff::model {

struct FeedModel {
  static constexpr int kMostIds = 3;

  /// An event that was seen, and who was writing then and still is, each by the id that it has drawn.
  struct Waiting {
    int event = 0;
    std::set<int> writers;
    auto operator<=>(const Waiting&) const = default;
  };
  struct State {
    int drawn = 0;
    std::set<int> open;
    std::set<int> committed;
    std::vector<Waiting> waiting;
    int settled = 0;
    std::vector<int> delivered;
    bool looked = false;  ///< the last step
    auto operator<=>(const State&) const = default;
  };

  enum class Verb { insert, commit, roll_back, poll };
  struct Step {
    Verb verb;
    int id = 0;
  };

  /// False: a model of a reader that goes by event_id > last.
  bool waits = true;

  std::vector<Step> steps(const State& s) const {
    std::vector<Step> next{{Verb::poll}};
    if (s.drawn < kMostIds) next.push_back({Verb::insert, s.drawn + 1});
    for (const int id : s.open) next.insert(next.end(), {{Verb::commit, id}, {Verb::roll_back, id}});
    return next;
  }

  State after(State s, const Step& step) const {
    s.looked = step.verb == Verb::poll;
    if (s.looked) {
      poll(s);
    } else if (step.verb == Verb::insert) {
      s.open.insert(s.drawn = step.id);
    } else {
      s.open.erase(step.id);
      if (step.verb == Verb::commit) s.committed.insert(step.id);
    }
    return s;
  }

  std::string fault(const State& s) const {
    const std::set<int> told(s.delivered.begin(), s.delivered.end());
    for (const int id : s.committed)
      if (id <= s.settled && !told.contains(id)) return "an event that nobody will ever be told";
    return s.looked && s.open.empty() && told != s.committed ? "an event held back, and nobody in the way"
                                                             : "";
  }

 private:
  void poll(State& s) const {
    for (Waiting& each : s.waiting)
      std::erase_if(each.writers, [&](int writer) { return !s.open.contains(writer); });
    const int newest = s.committed.empty() ? 0 : *s.committed.rbegin();
    const int seen = s.waiting.empty() ? s.settled : s.waiting.back().event;
    if (newest > seen) s.waiting.push_back({newest, waits ? s.open : std::set<int>()});
    const int before = s.settled;
    while (!s.waiting.empty() && s.waiting.front().writers.empty()) {
      s.settled = s.waiting.front().event;
      s.waiting.erase(s.waiting.begin());
    }
    std::copy_if(s.committed.begin(), s.committed.end(), std::back_inserter(s.delivered),
                 [&](int id) { return id > before && id <= s.settled; });
  }
};

}  // namespace ff::model
