#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "histories/step.hpp"
#include "pg/pool.hpp"
#include "reconcile/report.hpp"
#include "support/flowfabric.hpp"
#include "support/process.hpp"

namespace ff::test {

/// When a process dies: as it wants to write to `table` in the `nth` of its transactions that do, with at most
/// `batch` rows in each.
struct Moment {
  std::string table;
  int nth = 1;
  int batch = 1;
  static Moment of(const Step& step);
};

/// Rows by outcome.
using Outcomes = std::map<std::string, std::int64_t, std::less<>>;

/// Who takes care of what workers leave behind. A turn of a reconciler that it does not have does nothing.
class Rescuer {
 public:
  virtual ~Rescuer() = default;
  /// One turn.
  virtual Outcomes tick(std::string_view reconciler) = 0;
  /// One turn, whose sessions end as they want to write to this table. False: it came to its end before.
  virtual bool cut(std::string_view reconciler, const std::string& table) = 0;
  /// One turn by a process, which SIGKILL ends. False: it came to its end before.
  virtual bool kill(std::string_view reconciler, const Moment& moment) = 0;
};

/// The reconcilers of the daemon; `grace` is what lease_expiry and attempt_timeout are set to.
class Daemon final : public Rescuer {
 public:
  Daemon(const FlowFabricDatabase& database, std::int64_t grace_ms);
  Outcomes tick(std::string_view reconciler) override;
  bool cut(std::string_view reconciler, const std::string& table) override;
  bool kill(std::string_view reconciler, const Moment& moment) override;

 private:
  reconcile::TickReport run(std::string_view reconciler);

  const FlowFabricDatabase& database_;
  const std::int64_t grace_ms_;
  // An engine of its own for each turn, so that none remembers another, over one session, which remembers
  // only how to plan.
  const pg::Connector connector_;
  pg::Pool pool_;
  const TemporaryDirectory directory_;
  const std::string config_;  // of processes
};

/// FlowFabric's own scanners, as many as its server starts on PostgreSQL. Nothing stops them.
class Scanners final : public Rescuer {
 public:
  explicit Scanners(FlowFabric& flowfabric) : flowfabric_(flowfabric) {}
  Outcomes tick(std::string_view reconciler) override;
  bool cut(std::string_view reconciler, const std::string&) override { return tick(reconciler), false; }
  bool kill(std::string_view reconciler, const Moment&) override { return tick(reconciler), false; }

 private:
  FlowFabric& flowfabric_;
};

/// For histories that show what FlowFabric does all by itself.
class Nobody final : public Rescuer {
 public:
  Outcomes tick(std::string_view) override { return {}; }
  bool cut(std::string_view, const std::string&) override { return false; }
  bool kill(std::string_view, const Moment&) override { return false; }
};

/// Every reconciler that histories let run, in the order of a pass.
const std::vector<std::string>& rescuing_reconcilers();

}  // namespace ff::test
