#include "faults/world.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "migrate/migrate.hpp"
#include "support/database.hpp"
#include "testserver/server_programs.hpp"

namespace ff::faults {
namespace {

using namespace std::chrono_literals;

constexpr const char* kDatabase = "flow";
constexpr const char* kLane = "trial";
constexpr const char* kHeldLane = "held";
constexpr PartitionKey kHeldPartition{3};
constexpr PartitionKey kLastPartition{15};
constexpr int kHolders = 8;
constexpr Milliseconds kHeldLease = 6s;
constexpr Milliseconds kConnectTime = 30s;
// A lock on a table that lasts for a minute is no outage.
constexpr Milliseconds kStatementTime = 5min;
constexpr Milliseconds kRealPatience = 2min;
// What does not come from a node that stands still is wanted from another.
constexpr Milliseconds kClusterTime = 2s;

std::vector<std::string> under_libfaketime(const std::filesystem::path& clock_file) {
  return {"LD_PRELOAD=/usr/$LIB/faketime/libfaketimeMT.so.1",
          "FAKETIME_TIMESTAMP_FILE=" + clock_file.string(), "FAKETIME_NO_CACHE=1",
          "FAKETIME_DONT_FAKE_MONOTONIC=1"};
}

/// The text of a file goes behind this line.
void put_first(const std::filesystem::path& file, const std::string& line) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  std::ofstream(file) << line << '\n' << text.str();
}

}  // namespace

World::World(const WorldOptions& options, bool brief, std::uint64_t seed) : brief_(brief), generator_(seed) {
  // Before the server is started, so that it is in it, too.
  if (options.small_disk &&
      (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0))
    test::fail("a mount namespace, which only root can make");
  if (options.clustered) {
    cluster_ = std::make_unique<Cluster>(
        Cluster::Options{.hba = fmt::format("host {} {} 127.0.0.1/32 scram-sha-256", kDatabase, kRole),
                         .settings = options.server_settings});
    cluster_->wait_until_whole();
  } else {
    if (options.settable_clock) set_server_clock("+0");
    server_ = std::make_unique<testserver::PrivateServer>(
        testserver::ServerOptions{.durable = options.durable,
                                  .settings = options.server_settings,
                                  .environment = options.settable_clock ? under_libfaketime(clock_file())
                                                                        : std::vector<std::string>{}});
    network_ = std::make_unique<test::Proxy>(server_->socket_directory());
  }
  if (options.small_disk) make_small_disk();
  make_database(options.small_disk ? "small" : "pg_default");
  replicas_ = std::make_unique<Replicas>(
      Replicas::Options{.conninfo = [this](int replica) { return daemon_conninfo(replica); },
                        .config = daemon_config(),
                        .another = options.another});
  holders_ = std::make_unique<test::Holders>(*connector_, kHolders, kHeldPartition, kHeldLease, kHeldLane);
  load_ = std::make_unique<simulation::Workload>(
      *connector_, simulation::WorkloadOptions{
                       .name = kLane, .partitions = realm().partitions, .outlives_outages = options.outages});
  start_real_workers(options, seed);
}

World::~World() {
  if (network_) network_->silence(test::Proxy::Silence::none);
  real_workers_.reset();
  load_.reset();
  holders_.reset();
  replicas_.reset();
  if (server_ && std::filesystem::exists(small_disk())) {
    server_->stop();
    ::umount(small_disk().c_str());
  }
  server_.reset();
  cluster_.reset();
}

std::string World::conninfo(const std::string& database) const {
  return cluster_ ? cluster_->conninfo(database) : server_->conninfo(database);
}

// FlowFabric's driver knows one host only: that of the server that takes writes now.
std::string World::url() const {
  if (!cluster_) return test::url_of(*server_, kDatabase);
  const auto port = connect().execute("SELECT pg_catalog.inet_server_port()").one().get<std::int32_t>(0);
  return fmt::format("postgresql://postgres@127.0.0.1:{}/{}", port, kDatabase);
}

std::string World::daemon_conninfo(int replica) const {
  const std::string hosts = cluster_ ? cluster_->hosts() : "host=" + network_->directory().string();
  return fmt::format("{} user={} dbname={} application_name=replica-{}", hosts, kRole, kDatabase, replica);
}

std::vector<std::filesystem::path> World::server_logs() const {
  return cluster_ ? cluster_->logs() : std::vector{server_->directory() / "log"};
}

simulation::Realm World::realm() const {
  return {kLane, partition_range(PartitionKey{0}, kLastPartition)};
}

std::filesystem::path World::clock_file() const {
  return directory_.path() / "clock";
}

// In one step, for all processes read it again each time they ask what time it is.
void World::set_server_clock(const std::string& offset) const {
  const auto next = clock_file().string() + ".next";
  std::ofstream(next) << offset << '\n';
  std::filesystem::permissions(directory_.path(), std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
  std::filesystem::rename(next, clock_file());
}

std::filesystem::path World::small_disk() const {
  return server_->directory() / "small";
}

// In a mount namespace of ours and the server's, so that nothing is left of it, however we end.
void World::make_small_disk() const {
  const auto directory = small_disk();
  const auto tables = directory / "tables";
  const auto owner = testserver::server_account();
  std::filesystem::create_directory(directory);
  if (::mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=300m,mode=0711") != 0)
    test::fail("mounting a small disk");
  std::filesystem::create_directory(tables);
  if (owner && ::chown(tables.c_str(), owner->uid, owner->gid) != 0) test::fail("chown " + tables.string());
  pg::Connector({.conninfo = conninfo("postgres")})
      .connect(Clock::system().now() + kConnectTime)
      .execute_script(fmt::format("CREATE TABLESPACE small LOCATION '{}'", tables.string()));
}

void World::make_database(const std::string& tablespace) {
  pg::Connector({.conninfo = conninfo("postgres")})
      .connect(Clock::system().now() + kConnectTime)
      .execute_script(fmt::format("CREATE DATABASE {} TABLESPACE {}", kDatabase, tablespace));
  connector_.emplace(pg::ConnectOptions{.conninfo = conninfo(kDatabase),
                                        .application_name = "ff-faults",
                                        .statement_timeout = cluster_ ? kClusterTime : kStatementTime});
  auto db = connect();
  migrate::up(db, test::Database::kFanOut);
  simulation::create(db, {.lane = kHeldLane}, {kHeldPartition}, 2 * kHolders);
  make_role(db);
}

void World::make_role(pg::Connection& db) {
  db.execute_script(fmt::format("CREATE ROLE {} LOGIN PASSWORD '{}'", kRole, kPassword));
  const auto grants =
      test::run_binary({"migrate", "grants", "--role", kRole}, {{"FF_DATABASE_URL", conninfo(kDatabase)}});
  if (grants.code != 0) throw std::runtime_error("migrate grants: " + grants.err);
  db.execute_script(grants.out);
  if (server_)
    put_first(server_->data() / "pg_hba.conf", fmt::format("local {} {} scram-sha-256", kDatabase, kRole));
  db.execute("SELECT pg_reload_conf()");
  write_password(kPassword);
}

void World::write_password(const std::string& password) const {
  directory_.write("password", password + '\n');
  const auto file = directory_.path() / "password";
  std::filesystem::permissions(file,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

// Short intervals, so that much is under way at any moment, and one crash goes to lease_expiry, the next on the same
// attempt to attempt_timeout.
std::string World::daemon_config() const {
  std::string config = fmt::format(R"(
database: {{pool_size: {}, password_file: {}}}
partitions: 0-{}
recovery_grace: 6s
shutdown: {{grace: {}ms}}
reconcilers:
)",
                                   kPoolSize, (directory_.path() / "password").string(), kLastPartition.value,
                                   kShutdownGrace.count());
  for (const char* name : {"delayed_promoter", "attempt_timeout", "execution_deadline", "suspension_timeout",
                           "pending_waitpoint_expiry", "edge_cancel_dispatcher", "edge_cancel_reconciler",
                           "budget_reset", "quota_concurrency", "worker_registry_ttl"})
    config += fmt::format("  {}: {{interval: 200ms}}\n", name);
  return config +
         "  lease_expiry: {interval: 200ms, max_reclaims: 1}\n"
         "  dependency: {interval: 200ms, stale_threshold: 200ms}\n";
}

// With the seed itself: nothing else depends on whether they are there.
void World::start_real_workers(const WorldOptions& options, std::uint64_t seed) {
  if (!test::FlowFabric::is_built()) {
    why_simulated_only_ = "`./dev conformance` has not built them";
    return;
  }
  if (options.settable_clock) {
    why_simulated_only_ = "they date their leases by a clock of their own, and not by the server's";
    return;
  }
  test::FlowFabric(url()).call("seed_secret");
  real_workers_ =
      std::make_unique<RealWorkers>(RealWorkerOptions{.url = [this] { return url(); },
                                                      .connector = &*connector_,
                                                      .outages = options.outages,
                                                      .patience = cluster_ ? kClusterTime : kRealPatience},
                                    seed);
}

std::int64_t World::random(std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(generator_);
}

pg::Connection World::connect() const {
  return connector_->connect(Clock::system().now() + kConnectTime);
}

void World::terminate_sessions() {
  connect().execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1",
                    pg::Params::of(std::string(kRole)));
}

void World::measured(const std::string& what, SteadyTime::duration took, Milliseconds wanted) {
  Measure& measure = result_->measures[what];
  measure.worst = std::max(measure.worst, std::chrono::duration_cast<Milliseconds>(took));
  measure.wanted = limit(wanted);
  ++measure.times;
}

void World::complain(const std::string& what) {
  result_->complaints.push_back(what);
}

}  // namespace ff::faults
