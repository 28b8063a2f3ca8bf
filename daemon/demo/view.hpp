#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "demo/simulation/books.hpp"
#include "demo/simulation/workload.hpp"
#include "demo/terminal.hpp"
#include "status_board.hpp"

namespace ff::daemon {

/// Rows per second over the last few seconds, of several counters that only rise.
class Rates {
 public:
  void observe(SteadyTime now, std::map<std::string, std::int64_t> totals);
  double of(const std::string& name) const;

 private:
  std::deque<std::pair<SteadyTime, std::map<std::string, std::int64_t>>> samples_;
};

/// Everything that the demo shows at one moment.
struct Scene {
  struct Reconciler {
    std::string name;
    bool takes_leases = false;
    std::string off;  ///< why it does not run; empty: it does
    StatusBoard::Totals totals;
    double rate = 0;
  };

  SteadyTime now;
  Milliseconds elapsed{0};
  std::optional<Milliseconds> length;  ///< of the whole demo; nothing: until Ctrl-C
  std::string state;
  std::string database;  ///< where it is, in words
  std::string metrics_url;
  bool private_database = true;
  Milliseconds lease_ttl{0};
  std::vector<Reconciler> reconcilers;
  std::vector<simulation::WorkerState> workers;
  simulation::WorkCounts work;
  simulation::Census census;
  std::vector<simulation::Happening> latest;  ///< oldest first
};

/// "01:05"
std::string clock(Milliseconds elapsed);
/// "12 ms", "-" where there is none.
std::string lateness(std::optional<Milliseconds> worst);

/// The scene as one screen: at most `rows` lines, none wider than `columns`. What does not fit is left out,
/// the least important first.
std::vector<std::string> screen(const Scene& scene, const Style& style);

/// The scene as one line of plain text.
std::string line(const Scene& scene);

/// The end: what was done, and what the books say.
std::string summary(const Scene& scene, const std::vector<simulation::Verdict>& verdicts, const Style& style);

}  // namespace ff::daemon
