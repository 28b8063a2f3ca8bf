#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <optional>
#include <vector>

namespace ff::metrics {

/// The `process_*` metrics under the names that all Prometheus clients share, read from /proc at each
/// collection. What /proc does not tell (it may not be mounted) is left out. Thread-safe.
class ProcessCollector final : public prometheus::Collectable {
 public:
  ProcessCollector();
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::optional<double> started_at_;  ///< in Unix time; once, so that no step of the clock moves it
};

}  // namespace ff::metrics
