#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>

#include "demo/simulation/workload.hpp"
#include "faults/cluster.hpp"
#include "faults/real_workers.hpp"
#include "faults/replicas.hpp"
#include "faults/result.hpp"
#include "support/holders.hpp"
#include "support/proxy.hpp"
#include "testserver/private_server.hpp"

namespace ff::faults {

/// The daemons' role on the server. It may do what `migrate grants` prints, and has to know a password.
constexpr const char* kRole = "reconciler";
constexpr const char* kPassword = "the first one";

struct WorldOptions {
  std::map<std::string, std::string> server_settings = {};
  /// The server itself goes away: what is under way then is left behind by the workers as well.
  bool outages = false;
  /// As in earnest: what is committed is flushed.
  bool durable = false;
  /// Instead of a server and a proxy: a primary and a standby, reached by their addresses.
  bool clustered = false;
  /// The program of the last replica: see Replicas::Options.
  std::string another = {};
  /// Its clock can be set (libfaketime).
  bool settable_clock = false;
  /// The database is on a disk of its own, of 300 MB. Wants root.
  bool small_disk = false;
};

/// What a fault happens to: a server of its own, three replicas behind a proxy, and a load, whose workers reach the
/// server directly; or a cluster instead, which all reach directly. Beside the simulated workers there are some of the real
/// FlowFabric, where it has been built. Used by the thread that made it.
class World {
 public:
  World(const WorldOptions& options, bool brief, std::uint64_t seed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// The short form: what could last long lasts for seconds, and what should be quick has thrice the time, since it is run
  /// where nobody knows how busy the machine is.
  bool brief() const { return brief_; }
  Milliseconds limit(Milliseconds wanted) const { return brief_ ? 3 * wanted : wanted; }
  Milliseconds length(Milliseconds in_full, Milliseconds in_short) const {
    return brief_ ? in_short : in_full;
  }
  std::int64_t random(std::int64_t least, std::int64_t most);

  /// Where there is no cluster, as is the network.
  testserver::PrivateServer& server() { return *server_; }
  Cluster& cluster() { return *cluster_; }
  /// How far its clock is off, as libfaketime says it; only where that can be set.
  void set_server_clock(const std::string& offset) const;
  /// Where the database is, where it has a disk of its own.
  std::filesystem::path small_disk() const;
  /// What the servers have written.
  std::vector<std::filesystem::path> server_logs() const;
  /// A new session of the superuser, whom nobody stops.
  pg::Connection connect() const;
  /// Ends all sessions of the daemons.
  void terminate_sessions();

  test::Proxy& network() { return *network_; }
  Replicas& replicas() { return *replicas_; }
  simulation::Workload& load() { return *load_; }
  /// nullptr: there are none, see why_simulated_only().
  RealWorkers* real_workers() { return real_workers_.get(); }
  /// Empty where there are real workers.
  const std::string& why_simulated_only() const { return why_simulated_only_; }
  test::Holders& holders() { return *holders_; }
  simulation::Realm realm() const;
  /// Where the password is that the daemons read.
  void write_password(const std::string& password) const;

  /// Where what is told goes; has to outlive what tells.
  void report_to(FaultResult& result) { result_ = &result; }
  void measured(const std::string& what, SteadyTime::duration took, Milliseconds wanted);
  void complain(const std::string& what);

 private:
  std::string conninfo(const std::string& database) const;
  std::string daemon_conninfo(int replica) const;
  std::filesystem::path clock_file() const;
  void make_small_disk() const;
  void make_database(const std::string& tablespace);
  void make_role(pg::Connection& db);
  std::string daemon_config() const;
  void start_real_workers(const WorldOptions& options, std::uint64_t seed);
  /// Safe from any thread.
  std::string url() const;

  const bool brief_;
  std::mt19937_64 generator_;
  test::TemporaryDirectory directory_;
  std::unique_ptr<testserver::PrivateServer> server_;
  std::unique_ptr<Cluster> cluster_;
  std::optional<pg::Connector> connector_;
  std::unique_ptr<test::Proxy> network_;
  std::unique_ptr<Replicas> replicas_;
  std::unique_ptr<test::Holders> holders_;
  std::unique_ptr<simulation::Workload> load_;
  std::unique_ptr<RealWorkers> real_workers_;
  std::string why_simulated_only_;
  FaultResult* result_ = nullptr;
};

}  // namespace ff::faults
