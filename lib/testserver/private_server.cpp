#include "testserver/private_server.hpp"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "pg/connect.hpp"
#include "testserver/server_programs.hpp"

namespace ff::testserver {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuperuser = "postgres";
constexpr const char* kPort = "5432";  // only part of the socket's name
constexpr Milliseconds kInitDbTime{120'000};
constexpr Milliseconds kStartTime{60'000};
constexpr Milliseconds kFastStopTime{15'000};
constexpr Milliseconds kImmediateStopTime{8'000};  // the postmaster itself kills its children after 5 s
constexpr Milliseconds kStatementTime{120'000};
constexpr Milliseconds kReadyPollInterval{10};
constexpr mode_t kEverybodyPasses = 0711;
constexpr mode_t kOwnerOnly = 0700;

SteadyTime in(Milliseconds time) {
  return Clock::system().now() + time;
}

// A value of a conninfo keyword, quoted as libpq reads it.
std::string conninfo_value(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

std::string identifier(std::string_view name) {
  std::string quoted = "\"";
  for (const char c : name) {
    if (c == '"') quoted += c;
    quoted += c;
  }
  return quoted + '"';
}

// On the command line, where nothing that lies in a data directory can undo them.
std::map<std::string, std::string> all_settings(const ServerOptions& options, const fs::path& sockets) {
  const std::string flush = options.durable ? "on" : "off";
  std::map<std::string, std::string> settings{
      {"listen_addresses", ""},
      {"port", kPort},
      {"unix_socket_directories", sockets},
      {"fsync", flush},
      {"full_page_writes", flush},
      // Costs little when nothing is flushed, and a crash of the server alone loses no commit.
      {"synchronous_commit", "on"},
      {"max_connections", "100"},
      // A transaction that touches all 256 children of several tables with their indexes holds thousands.
      {"max_locks_per_transaction", "512"},
      {"timezone", "UTC"},
      {"log_timezone", "UTC"},
      {"log_line_prefix", "%m [%p] %u@%d %a "},
  };
  for (const auto& [name, value] : options.settings) settings[name] = value;
  return settings;
}

// With its sessions, which would otherwise go on for a moment. The postmaster is stopped first: so it starts
// no other child and waits for none, and the numbers stay those of its children.
void kill_all(ChildProcess& postmaster) {
  postmaster.send(SIGSTOP);
  const std::string pid = std::to_string(postmaster.pid());
  std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
  for (pid_t child = 0; children >> child;) ::kill(child, SIGKILL);
  postmaster.send(SIGKILL);
}

}  // namespace

PrivateServer::Directory::Directory() : owner(::getpid()) {
  const char* base = std::getenv("TMPDIR");
  std::string pattern = fs::path(base != nullptr && *base != '\0' ? base : "/tmp") / "ff-postgres-XXXXXX";
  const auto socket_length = pattern.size() + std::strlen("/socket/.s.PGSQL.") + std::strlen(kPort);
  if (socket_length >= sizeof(sockaddr_un::sun_path))
    throw std::runtime_error("TMPDIR is too long for the path of a Unix socket: " + pattern);
  if (::mkdtemp(pattern.data()) == nullptr)
    throw std::system_error(errno, std::generic_category(), "mkdtemp " + pattern);
  path = fs::canonical(pattern);
}

PrivateServer::Directory::~Directory() {
  if (owner != ::getpid()) return;
  std::error_code error;
  // After a kill, the postmaster's children may make a last file while we remove.
  for (int attempt = 0; attempt < 3; ++attempt) {
    fs::remove_all(path, error);
    if (!error) return;
    std::this_thread::sleep_for(Milliseconds{50});
  }
  spdlog::warn("{} could not be removed: {}", path.string(), error.message());
}

PrivateServer::PrivateServer(const ServerOptions& options)
    : programs_(find_server_programs()), account_(server_account()), environment_(options.environment) {
  // libpq would go to that address, whatever host it is told, and no keyword takes it back.
  ::unsetenv("PGHOSTADDR");
  if (account_ && ::chmod(directory_.path.c_str(), kEverybodyPasses) != 0)
    throw std::system_error(errno, std::generic_category(), "chmod " + directory_.path.string());
  make_directory(socket_directory());
  settings_ = all_settings(options, socket_directory());
  if (options.data.empty()) {
    make_directory(data());
    make_cluster();
  } else {
    fs::create_directory_symlink(options.data, data());
  }
  start();
}

// Of the account that the server runs as, in a directory of ours: nobody else can put anything in its place.
void PrivateServer::make_directory(const fs::path& path) const {
  if (::mkdir(path.c_str(), kOwnerOnly) != 0 ||
      (account_ && ::chown(path.c_str(), account_->uid, account_->gid) != 0))
    throw std::system_error(errno, std::generic_category(), "making " + path.string());
}

PrivateServer::~PrivateServer() {
  if (directory_.owner != ::getpid()) {
    // We are a fork of the owner, and the server is not our child. The directory's destructor knows as well.
    static_cast<void>(postmaster_.release());
    return;
  }
  stop(Stop::fast);
}

Command PrivateServer::command(std::string_view program, std::vector<std::string> arguments) const {
  auto environment = server_environment();
  environment.insert(environment.end(), environment_.begin(), environment_.end());
  return Command{.program = programs_ / program,
                 .arguments = std::move(arguments),
                 .environment = std::move(environment),
                 .directory = directory_.path,
                 .output = directory_.path / "log",
                 .account = account_,
                 .death_signal = SIGQUIT};  // to a postmaster: end at once, without writing anything out
}

void PrivateServer::make_cluster() {
  ChildProcess initdb(command("initdb", {"-D", data(), "-U", kSuperuser, "-A", "trust", "-E", "UTF8",
                                         "--locale=C", "--no-sync", "--no-instructions"}));
  if (!initdb.wait_until(in(kInitDbTime))) fail("initdb takes too long");
  if (!initdb.succeeded()) fail("initdb " + initdb.state());
}

void PrivateServer::start() {
  if (running()) return;
  std::vector<std::string> arguments{"-D", data()};
  for (const auto& [name, value] : settings_) arguments.insert(arguments.end(), {"-c", name + "=" + value});
  const SteadyTime deadline = in(kStartTime);
  for (;;) {
    postmaster_ = std::make_unique<ChildProcess>(command("postgres", arguments));
    std::string reason;
    if (wait_until_ready(deadline, reason)) return;
    const bool ended = postmaster_->ended();
    stop(Stop::kill);
    // After a kill, the old server's processes may hold its shared memory for a moment.
    if (!ended || log_tail(3).find("shared memory block") == std::string::npos ||
        Clock::system().now() >= deadline)
      fail("the private PostgreSQL server " + reason);
    std::this_thread::sleep_for(kReadyPollInterval);
  }
}

bool PrivateServer::wait_until_ready(SteadyTime deadline, std::string& reason) {
  for (;;) {
    try {
      administrator(deadline);
      return true;
    } catch (const pg::Error& error) {
      reason = std::string("does not accept connections: ") + error.what();
    }
    if (postmaster_->wait_until(in(kReadyPollInterval))) {
      reason = postmaster_->state();
      return false;
    }
    if (Clock::system().now() >= deadline) return false;
  }
}

void PrivateServer::stop(Stop how) {
  if (!postmaster_) return;
  if (how == Stop::fast) postmaster_->send(SIGINT);
  if (how == Stop::fast && !postmaster_->wait_until(in(kFastStopTime))) how = Stop::immediate;
  if (how == Stop::immediate) postmaster_->send(SIGQUIT);
  if (how == Stop::immediate && !postmaster_->wait_until(in(kImmediateStopTime))) how = Stop::kill;
  if (how == Stop::kill && running()) kill_all(*postmaster_);
  postmaster_->wait_until(SteadyTime::max());
  postmaster_.reset();
}

void PrivateServer::restart(Stop how) {
  stop(how);
  start();
}

bool PrivateServer::running() {
  return postmaster_ && !postmaster_->ended();
}

std::optional<pid_t> PrivateServer::pid() {
  return running() ? std::optional(postmaster_->pid()) : std::nullopt;
}

std::string PrivateServer::conninfo(std::string_view database) const {
  return "host=" + conninfo_value(socket_directory().string()) + " port=" + kPort + " user=" + kSuperuser +
         " dbname=" + conninfo_value(database);
}

pg::Connection PrivateServer::administrator(SteadyTime deadline) const {
  // A server that was told to be read-only is still ours to manage.
  pg::ConnectOptions options;
  options.conninfo = conninfo() + " target_session_attrs=any options='-c client_min_messages=warning'";
  options.application_name = "ff-testserver";
  options.statement_timeout = kStatementTime;
  const pg::Connector connector(options);
  return connector.connect(deadline);
}

void PrivateServer::create_database(std::string_view name, std::string_view from_template) {
  std::string sql = "CREATE DATABASE " + identifier(name);
  if (!from_template.empty()) sql += " TEMPLATE " + identifier(from_template);
  administrator(in(kStartTime)).execute(sql);
}

void PrivateServer::drop_database(std::string_view name) {
  administrator(in(kStartTime)).execute("DROP DATABASE IF EXISTS " + identifier(name) + " WITH (FORCE)");
}

std::string PrivateServer::log_tail(int lines) const {
  std::ifstream file(directory_.path / "log");
  std::deque<std::string> last;
  for (std::string line; std::getline(file, line);) {
    last.push_back(line);
    if (last.size() > static_cast<std::size_t>(lines)) last.pop_front();
  }
  std::string text;
  for (const auto& line : last) text += line + '\n';
  return text;
}

void PrivateServer::fail(const std::string& what) const {
  throw std::runtime_error(what + "; the end of its log:\n" + log_tail());
}

}  // namespace ff::testserver
