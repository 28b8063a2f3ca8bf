#include "faults/cluster.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <random>
#include <stdexcept>
#include <system_error>

#include "pg/connect.hpp"
#include "testserver/server_programs.hpp"

namespace ff::faults {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kPatience = 60s;
constexpr Milliseconds kOneAnswer = 1s;
constexpr Milliseconds kBetweenLooks = 20ms;
constexpr Milliseconds kGoodbye = 20s;
constexpr mode_t kEverybodyPasses = 0711;
constexpr mode_t kOwnerOnly = 0700;

// The shortest that Patroni allows: a lease of 20 s, looked after each second.
constexpr const char* kConfiguration = R"(
scope: ff
name: {name}
restapi: {{listen: '127.0.0.1:{rest_port}', connect_address: '127.0.0.1:{rest_port}'}}
etcd: {{host: '127.0.0.1:{etcd_port}'}}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 1
    retry_timeout: 3
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      parameters: {{max_connections: 100, max_locks_per_transaction: 512, wal_keep_size: 1GB, fsync: 'off'}}
  initdb: [encoding: UTF8, locale: C, auth: trust]
postgresql:
  listen: 127.0.0.1:{port}
  connect_address: 127.0.0.1:{port}
  data_dir: {directory}/data
  bin_dir: {programs}
  pgpass: {directory}/pgpass
  authentication:
    superuser: {{username: postgres}}
    replication: {{username: replicator}}
    rewind: {{username: postgres}}
  parameters:
    unix_socket_directories: {directory}
    timezone: UTC
    log_line_prefix: '%m [%p] %u@%d %a '
{settings}
  pg_hba:
{hba}
  - local all all trust
  - host replication all 127.0.0.1/32 trust
  - host all all 127.0.0.1/32 trust
)";

bool is_free(int port) {
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listening < 0) test::fail("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool bound = ::bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(listening);
  return bound;
}

// Below those that outgoing connections have: one of them could take that of a node that is down.
int free_port() {
  std::random_device random;
  for (int tries = 0; tries < 1000; ++tries)
    if (const int port = std::uniform_int_distribution(20'000, 32'000)(random); is_free(port)) return port;
  throw std::runtime_error("no port is free");
}

std::string lines_of(const std::string& text, const std::string& before) {
  std::string lines;
  std::size_t from = 0;
  while (from < text.size()) {
    const auto end = std::min(text.find('\n', from), text.size());
    lines += before + text.substr(from, end - from) + '\n';
    from = end + 1;
  }
  return lines;
}

std::string end_of(const std::filesystem::path& log) {
  constexpr std::size_t kMost = 3000;
  std::ifstream file(log);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.size() > kMost ? text.substr(text.size() - kMost) : text;
}

}  // namespace

Cluster::Cluster(const Options& options) : account_(testserver::server_account()) {
  std::filesystem::permissions(directory_.path(), std::filesystem::perms{kEverybodyPasses});
  start_etcd();
  for (int node = 0; node < kNodes; ++node) {
    Node& its = at(node);
    its.name = node == 0 ? "a" : "b";
    its.directory = make_directory(its.name);
    its.port = free_port();
    its.rest_port = free_port();
    std::ofstream(file(its.name + ".yaml")) << configuration(its, options);
  }
  // The first to come makes the cluster, the other a copy of it.
  for (int node = 0; node < kNodes; ++node) start(node);
}

Cluster::~Cluster() {
  for (Node& node : nodes_) {
    if (!node.patroni) continue;
    node.frozen.reset();
    node.patroni->send(SIGCONT);
    node.patroni->send(SIGTERM);
  }
  const SteadyTime deadline = Clock::system().now() + kGoodbye;
  for (int node = 0; node < kNodes; ++node)
    if (at(node).patroni && !at(node).patroni->wait_until(deadline)) kill(node);
}

std::filesystem::path Cluster::make_directory(const std::string& name) const {
  std::filesystem::path path = file(name);
  if (::mkdir(path.c_str(), kOwnerOnly) != 0 ||
      (account_ && ::chown(path.c_str(), account_->uid, account_->gid) != 0))
    test::fail("making " + path.string());
  return path;
}

std::unique_ptr<testserver::ChildProcess> Cluster::launch(const std::string& log,
                                                          std::vector<std::string> words) const {
  return std::make_unique<testserver::ChildProcess>(
      testserver::Command{.program = "/usr/bin/env",
                          .arguments = std::move(words),
                          .environment = testserver::server_environment(),
                          .directory = "/",
                          .output = file(log),
                          .account = account_,
                          .death_signal = SIGTERM});  // upon which Patroni stops its server
}

void Cluster::start_etcd() {
  etcd_port_ = free_port();
  const std::string clients = fmt::format("http://127.0.0.1:{}", etcd_port_);
  const std::string peers = fmt::format("http://127.0.0.1:{}", free_port());
  etcd_ = launch("etcd.log",
                 {"etcd", "--enable-v2", "--data-dir", make_directory("etcd").string(),
                  "--listen-client-urls", clients, "--advertise-client-urls", clients, "--listen-peer-urls",
                  peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers});
}

std::string Cluster::configuration(const Node& node, const Options& options) const {
  std::string settings;
  for (const auto& [name, value] : options.settings) settings += fmt::format("    {}: '{}'\n", name, value);
  return fmt::format(kConfiguration, fmt::arg("name", node.name), fmt::arg("rest_port", node.rest_port),
                     fmt::arg("etcd_port", etcd_port_), fmt::arg("port", node.port),
                     fmt::arg("directory", node.directory.string()),
                     fmt::arg("programs", testserver::find_server_programs().string()),
                     fmt::arg("settings", settings), fmt::arg("hba", lines_of(options.hba, "  - ")));
}

std::string Cluster::hosts() const {
  return fmt::format("host=127.0.0.1,127.0.0.1 port={},{}", at(0).port, at(1).port);
}

std::string Cluster::conninfo(const std::string& database) const {
  return fmt::format("{} user=postgres dbname={}", hosts(), database);
}

std::optional<std::int64_t> Cluster::ask(int node, const std::string& sql) const {
  const SteadyTime deadline = Clock::system().now() + kOneAnswer;
  const pg::Connector connector(
      {.conninfo = fmt::format(
           "host=127.0.0.1 port={} user=postgres dbname=postgres target_session_attrs=any", at(node).port)});
  try {
    return connector.connect(deadline).execute(sql, {}, deadline).one().get<std::int64_t>(0);
  } catch (const pg::Error&) {
    return std::nullopt;
  }
}

std::optional<bool> Cluster::takes_writes(int node) const {
  const auto answer = ask(node, "SELECT count(*) WHERE NOT pg_is_in_recovery()");
  return answer ? std::optional(*answer == 1) : std::nullopt;
}

int Cluster::primary() const {
  int found = -1;
  test::wait_until(
      [&] {
        for (int node = 0; node < kNodes; ++node)
          if (!at(node).frozen && takes_writes(node).value_or(false)) found = node;
        return found >= 0;
      },
      kPatience, kBetweenLooks);
  if (found < 0) throw std::runtime_error("no node takes writes");
  return found;
}

// As Patroni sees it, too: whom it does not know to have everything it does not promote.
bool Cluster::is_whole() const {
  const std::string members = control({"list", "ff"});
  if (members.find("Sync Standby") == std::string::npos) return false;
  for (int node = 0; node < kNodes; ++node)
    if (takes_writes(node).value_or(false))
      return ask(node, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'").value_or(0) == 1;
  return false;
}

void Cluster::wait_until_whole() const {
  if (test::wait_until([&] { return is_whole(); }, kPatience, kBetweenLooks)) return;
  std::string said;
  for (const auto& log : {file("etcd.log"), file("a.log"), file("b.log")})
    said += log.filename().string() + ":\n" + end_of(log);
  throw std::runtime_error("the cluster does not become whole: " + said);
}

std::string Cluster::control(std::vector<std::string> words) const {
  words.insert(words.begin(), {"patronictl", "-c", file(at(0).name + ".yaml").string()});
  const auto asked = test::run(words);
  return asked.out + asked.err;
}

void Cluster::switch_over() {
  const std::string said = control({"switchover", "ff", "--force"});
  // A refusal ends it with 0 as well.
  if (said.find("Successfully") == std::string::npos)
    throw std::runtime_error("patronictl switchover: " + said);
}

std::optional<pid_t> Cluster::postmaster(const Node& node) {
  std::ifstream file(node.directory / "data" / "postmaster.pid");
  pid_t pid = 0;
  if (!(file >> pid)) return std::nullopt;
  // A node that was killed leaves its number behind, and somebody else may have it.
  std::error_code error;
  const auto where = std::filesystem::read_symlink(fmt::format("/proc/{}/cwd", pid), error);
  return where == node.directory / "data" ? std::optional(pid) : std::nullopt;
}

void Cluster::kill(int node) {
  Node& its = at(node);
  if (its.patroni) its.patroni->send(SIGKILL);
  if (const auto pid = postmaster(its)) {
    ::kill(*pid, SIGSTOP);  // it starts no further ones
    for (const pid_t child : test::children_of(*pid)) ::kill(child, SIGKILL);
    ::kill(*pid, SIGKILL);
  }
  its.frozen.reset();
  its.patroni.reset();
}

void Cluster::start(int node) {
  Node& its = at(node);
  its.patroni = launch(its.name + ".log", {"patroni", file(its.name + ".yaml").string()});
}

void Cluster::freeze(int node) {
  Node& its = at(node);
  const auto pid = postmaster(its);
  if (!pid) throw std::runtime_error("a node without a server cannot be frozen");
  its.patroni->send(SIGSTOP);
  its.frozen = std::make_unique<test::Standstill>(*pid);
}

void Cluster::thaw(int node) {
  Node& its = at(node);
  its.frozen.reset();
  its.patroni->send(SIGCONT);
}

std::vector<std::filesystem::path> Cluster::logs() const {
  std::vector<std::filesystem::path> logs;
  for (const Node& node : nodes_) logs.push_back(file(node.name + ".log"));
  return logs;
}

}  // namespace ff::faults
