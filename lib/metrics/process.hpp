#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

namespace ff::metrics {

/// The `process_*` metrics under the names that all Prometheus clients share, read from /proc at each
/// collection. What /proc does not tell (it may not be mounted) is left out. Thread-safe.
class ProcessCollector final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace ff::metrics
