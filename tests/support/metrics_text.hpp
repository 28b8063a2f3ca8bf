#pragma once

#include <functional>
#include <string>

namespace ff::test {

/// Each sample of a metric in what /metrics says: its labels in braces, or nothing, and its value.
void each_sample(const std::string& metrics, const std::string& name,
                 const std::function<void(const std::string& labels, double value)>& visit);

/// The sum of a metric over those of its label sets that contain `labels`; 0: there is none.
double metric_sum(const std::string& metrics, const std::string& name, const std::string& labels = {});

}  // namespace ff::test
