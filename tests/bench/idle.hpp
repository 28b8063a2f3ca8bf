#pragma once

#include <string>

#include "bench/backlog.hpp"
#include "bench/bench.hpp"

namespace ff::bench {

/// What it costs in percent of one core.
struct Cost {
  double server = 0;
  double asker = 0;  ///< whoever asks the server
  double together() const { return server + asker; }
};

struct Times {
  Milliseconds warm_up;
  Milliseconds measured;
};

/// Some of ours look only every half minute, and some of those only when nothing was announced for a minute.
Times usual_times(const Bench& bench);
/// Each session plans each statement once, the last of them after minutes: what is measured is what it costs for ever.
Times settled_times(const Bench& bench);

/// The daemon with all its reconcilers. Throws std::runtime_error when it moved anything, or one of them has not looked.
Cost cost_of_daemon(const Bench& bench, const Times& times);

/// Rows of which nothing falls due for a day.
struct IdleRows {
  Tables tables;
  std::int64_t added = 0;
};

/// Makes them by the statements of a file: each says how many of a thousand of `count` it makes. They are not settled yet.
IdleRows add_idle_rows(pg::Connection& connection, const std::string& file, int count,
                       int partitions = kPartitions);

}  // namespace ff::bench
