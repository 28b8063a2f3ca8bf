#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"
#include "bench/regime.hpp"

namespace ff::bench {

double seconds_since(SteadyTime start);

/// Of at least one value; of an even number the mean of the middle two.
double median(std::vector<double> values);

/// The median over the rounds of what `one` reached in a round, divided by what `other` reached in the same.
/// Both have as many rounds.
double median_ratio(const Way& one, const Way& other);

/// "at least 25 times row by row", where `ratio` is what was reached.
Goal at_least_times(double wanted, double ratio, std::string_view of);
/// "within 1.5 times the plain case".
Goal within_times(double wanted, double ratio, std::string_view of);

/// A figure for people, in three or four digits: "0.0131", "1.25", "48.1", "1,532".
std::string figure(double value);

}  // namespace ff::bench
