#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pg/pool.hpp"
#include "reconcile/report.hpp"
#include "support/flowfabric.hpp"

namespace ff::test {

/// Who takes care of what workers leave behind. A turn of a reconciler that it does not have does nothing.
class Rescuer {
 public:
  virtual ~Rescuer() = default;
  /// One turn. `table`: where it is stopped, in the middle of a turn, as it wants to write there; empty: nowhere.
  virtual void tick(std::string_view reconciler, const std::string& table) = 0;
  /// The same as a process of its own, ended by SIGKILL.
  virtual void kill(std::string_view reconciler, const std::string& table) = 0;
};

/// The reconcilers of the daemon; `grace` is what lease_expiry and attempt_timeout are set to.
class Daemon final : public Rescuer {
 public:
  Daemon(const FlowFabricDatabase& database, std::int64_t grace_ms);
  void tick(std::string_view reconciler, const std::string& table) override;
  void kill(std::string_view reconciler, const std::string& table) override;

 private:
  void stop_midway(std::string_view reconciler, const std::string& table);
  reconcile::TickReport run(std::string_view reconciler);

  const FlowFabricDatabase& database_;
  const std::int64_t grace_ms_;
  // An engine of its own for each turn, so that none remembers another, over one session, which remembers
  // only how to plan.
  const pg::Connector connector_;
  pg::Pool pool_;
};

/// FlowFabric's own scanners, as many as its server starts on PostgreSQL.
class Scanners final : public Rescuer {
 public:
  explicit Scanners(FlowFabric& flowfabric) : flowfabric_(flowfabric) {}
  void tick(std::string_view reconciler, const std::string& table) override;
  void kill(std::string_view reconciler, const std::string&) override { tick(reconciler, ""); }

 private:
  FlowFabric& flowfabric_;
};

/// For histories that show what FlowFabric does all by itself.
class Nobody final : public Rescuer {
 public:
  void tick(std::string_view, const std::string&) override {}
  void kill(std::string_view, const std::string&) override {}
};

/// Every reconciler that histories let run, in the order of a pass.
const std::vector<std::string>& rescuing_reconcilers();

}  // namespace ff::test
