#include "support/flowfabric.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <sstream>

#include "support/database.hpp"
#include "support/process.hpp"
#include "testserver/server_programs.hpp"

namespace ff::test {
namespace {

namespace fs = std::filesystem;

constexpr Milliseconds kMigrationTime{300'000};
constexpr std::string_view kFlowFabricVersion = "0.15.0";

// Only the children that hold something: looking at all of them would take seconds.
constexpr std::string_view kEmpty = R"sql(
DO $$
DECLARE filled text;
BEGIN
  SELECT string_agg(c.oid::regclass::text, ', ') INTO filled
    FROM pg_class c
   WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND starts_with(c.relname, 'ff_')
     AND c.relname NOT IN ('ff_partition_config', 'ff_migration_annotation', 'ff_waitpoint_hmac')
     AND pg_relation_size(c.oid) > 0;
  IF filled IS NOT NULL THEN EXECUTE 'TRUNCATE ' || filled; END IF;
  UPDATE ff_partition_config SET num_flow_partitions = 256 WHERE num_flow_partitions <> 256;
END $$
)sql";

fs::path of_environment(const char* variable, const char* otherwise) {
  const char* given = std::getenv(variable);
  return given != nullptr && *given != '\0' ? fs::path(given) : fs::path(FF_SOURCE_DIRECTORY) / otherwise;
}

fs::path place_of_program() {
  return of_environment("FF_FLOWFABRIC_DRIVER", "build/flowfabric/release/ff-flowfabric");
}

fs::path program() {
  const fs::path path = place_of_program();
  if (!fs::exists(path))
    throw std::runtime_error(path.string() + " is missing: `./dev conformance` builds it");
  return path;
}

// Held until the object goes, over all programs.
class FileLock {
 public:
  explicit FileLock(const fs::path& path) : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail("open " + path.string());
  }
  ~FileLock() { ::close(fd_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  void wait() {
    if (::flock(fd_, LOCK_EX) != 0) fail("flock");
  }
  bool at_once() { return ::flock(fd_, LOCK_EX | LOCK_NB) == 0; }

 private:
  const int fd_;
};

// "PostgreSQL 15.14 (Debian …)" as a name for a directory: "15.14".
std::string server_version() {
  const Ended ended = run({testserver::find_server_programs() / "postgres", "--version"});
  const auto digit = ended.out.find_first_of("0123456789");
  if (ended.code != 0 || digit == std::string::npos) throw std::runtime_error("postgres --version failed");
  return ended.out.substr(digit, ended.out.find_first_not_of("0123456789.", digit) - digit);
}

void copy_tree(const fs::path& from, const fs::path& to) {
  const Ended ended = run({"cp", "-a", "--reflink=auto", from.string(), to.string()});
  if (ended.code != 0) throw std::runtime_error("cp: " + ended.err);
}

// Begun under another name, so that one that was given up is not taken for a whole one.
void make_whole(const fs::path& path, const std::function<void(const fs::path& unfinished)>& make) {
  const fs::path unfinished = path.string() + ".unfinished";
  fs::remove_all(unfinished);
  make(unfinished);
  fs::rename(unfinished, path);
}

void migrate(const fs::path& data) {
  testserver::PrivateServer server({.settings = {{"min_wal_size", "32MB"}, {"max_wal_size", "64MB"}}});
  server.create_database(FlowFabricDatabase::kName);
  {
    FlowFabric flowfabric(url_of(server, FlowFabricDatabase::kName));
    flowfabric.call("migrate", {}, kMigrationTime);
    flowfabric.call("seed_secret");
  }
  server.stop();
  copy_tree(server.data(), data);
}

// One data directory for each program that runs at a time: made once, used again and again, because even to
// copy one takes seconds.
struct Slot {
  Slot() {
    const fs::path all = of_environment("FF_FLOWFABRIC_CLUSTERS", "build/conformance");
    fs::create_directories(all);
    const std::string stem =
        all / ("pg" + server_version() + "-flowfabric" + std::string(kFlowFabricVersion));
    for (int number = 0; lock == nullptr; ++number) {
      data = stem + '-' + std::to_string(number);
      auto taken = std::make_unique<FileLock>(data.string() + ".lock");
      if (taken->at_once()) lock = std::move(taken);
    }
    if (fs::exists(data)) return;
    FileLock making(stem + ".lock");
    making.wait();
    if (!fs::exists(stem)) make_whole(stem, migrate);
    make_whole(data, [&](const fs::path& unfinished) { copy_tree(stem, unfinished); });
  }

  fs::path data;
  std::unique_ptr<FileLock> lock;
};

const Slot& slot() {
  static const Slot slot;
  return slot;
}

}  // namespace

bool FlowFabric::is_built() {
  return fs::exists(place_of_program());
}

// Of its help each line that is set in by two.
std::vector<std::string> FlowFabric::operations() {
  std::vector<std::string> names;
  std::istringstream help(run({program(), "--help"}).out);
  for (std::string line; std::getline(help, line);)
    if (line.starts_with("  ")) names.push_back(line.substr(2, line.find(' ', 2) - 2));
  return names;
}

FlowFabric::FlowFabric(const std::string& url, const std::vector<std::string>& options,
                       Complaints complaints) {
  std::vector<std::string> words{program().string(), url};
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) {  // only calls that are safe between fork and exec
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::signal(SIGPIPE, SIG_DFL);
    if (complaints == Complaints::nowhere) ::dup2(::open("/dev/null", O_WRONLY), 2);
    if (::getppid() == parent && ::dup2(ends[1], 0) == 0 && ::dup2(ends[1], 1) == 1)
      ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  socket_ = ends[0];
}

FlowFabric::~FlowFabric() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::close(socket_);
}

void FlowFabric::write_line(const std::string& line) {
  for (std::string_view left = line; !left.empty();) {
    const ssize_t written = ::write(socket_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("writing to ff-flowfabric");
    left.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string FlowFabric::read_line(SteadyTime deadline) {
  for (;;) {
    const auto end = unread_.find('\n');
    if (end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::system().now()).count();
    pollfd waited{socket_, POLLIN, 0};
    const int ready = ::poll(&waited, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) fail("poll");
    if (ready == 0) throw std::runtime_error("ff-flowfabric does not answer");
    char buffer[65536];
    const ssize_t got = ::read(socket_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw std::runtime_error("ff-flowfabric has ended");
    unread_.append(buffer, static_cast<std::size_t>(got));
  }
}

Json FlowFabric::call(std::string_view operation, Json arguments, Milliseconds at_most) {
  if (arguments.is_null()) arguments = Json::object();
  arguments["id"] = ++last_id_;
  arguments["op"] = operation;
  write_line(arguments.dump() + '\n');
  const Json answer = Json::parse(read_line(Clock::system().now() + at_most));
  if (answer.contains("error")) {
    const Json& error = answer.at("error");
    throw FlowFabricError(error.at("kind"),
                          std::string(operation) + ": " + error.at("message").get<std::string>());
  }
  if (answer.at("id") != last_id_) throw std::runtime_error("ff-flowfabric answers another question");
  return answer.at("ok");
}

std::string FlowFabric::refusal(std::string_view operation, Json arguments) {
  try {
    call(operation, std::move(arguments));
    return "";
  } catch (const FlowFabricError& error) {
    return error.kind();
  }
}

std::string url_of(const testserver::PrivateServer& server, std::string_view database) {
  return "postgresql://postgres@localhost/" + std::string(database) +
         "?host=" + server.socket_directory().string() + "&port=5432";
}

testserver::PrivateServer& FlowFabricDatabase::server() {
  static testserver::PrivateServer server({.data = slot().data});
  return server;
}

FlowFabricDatabase::FlowFabricDatabase() : connector_(options_for(conninfo())) {
  connect().execute(std::string(kEmpty));
}

FlowFabric& FlowFabricDatabase::flowfabric() {
  static FlowFabric flowfabric(url());
  return flowfabric;
}

pg::Connection FlowFabricDatabase::connect() const {
  return connector_.connect(Clock::system().now() + kConnectTime);
}

}  // namespace ff::test
