#include "support/process.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "http_server.hpp"

namespace ff::test {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kHttpTime = 10s;
constexpr Milliseconds kKept = 200ms;  // by a daemon, of what it takes long to make

int memory_file(const char* name) {
  const int fd = ::memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) fail("memfd_create");
  return fd;
}

std::string content(int fd, std::size_t from = 0) {
  struct stat state {};
  if (::fstat(fd, &state) != 0) fail("fstat");
  std::string text(static_cast<std::size_t>(state.st_size) - from, '\0');
  // The position belongs to the program that writes.
  const ssize_t got = ::pread(fd, text.data(), text.size(), static_cast<off_t>(from));
  if (got < 0) fail("pread");
  text.resize(static_cast<std::size_t>(got));
  return text;
}

bool is_read_by_the_daemon(const std::string& variable) {
  if (variable.starts_with("FF_POSTGRES_PROGRAMS="))
    return false;  // the demo's server is of the same version
  for (const char* prefix : {"FF_", "PG", "NOTIFY_SOCKET=", "WATCHDOG_", "JOURNAL_STREAM="})
    if (variable.starts_with(prefix)) return true;
  return false;
}

std::vector<std::string> environment_with(const Environment& more) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string its = *entry;
    if (!is_read_by_the_daemon(*entry) && !more.contains(its.substr(0, its.find('=')))) all.push_back(its);
  }
  for (const auto& [name, value] : more) all.push_back(name + '=' + value);
  return all;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

}  // namespace

void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

bool wait_until(const std::function<bool()>& holds, Milliseconds at_most, Milliseconds each) {
  const SteadyTime deadline = Clock::system().now() + at_most;
  while (!holds()) {
    if (Clock::system().now() >= deadline) return false;
    std::this_thread::sleep_for(each);
  }
  return true;
}

TemporaryDirectory::TemporaryDirectory() {
  std::string shape = (std::filesystem::temp_directory_path() / "ff-test-XXXXXX").string();
  if (::mkdtemp(shape.data()) == nullptr) fail("mkdtemp");
  path_ = shape;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryDirectory::write(const std::string& name, const std::string& text) const {
  const std::filesystem::path file = path_ / name;
  std::ofstream(file) << text;
  return file.string();
}

Process::Process(const std::vector<std::string>& command, const Environment& environment,
                 const std::string& input)
    : out_(memory_file("stdout")), err_(memory_file("stderr")) {
  const int in = memory_file("stdin");
  if (::write(in, input.data(), input.size()) != static_cast<ssize_t>(input.size()) ||
      ::lseek(in, 0, SEEK_SET) != 0)
    fail("stdin");
  const auto variables = environment_with(environment);
  const auto arguments = pointers(command);
  const auto entries = pointers(variables);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) {  // only calls that are safe between fork and exec
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::signal(SIGPIPE, SIG_DFL);
    if (::getppid() == parent && ::dup2(in, 0) == 0 && ::dup2(out_, 1) == 1 && ::dup2(err_, 2) == 2)
      ::execvpe(arguments[0], arguments.data(), entries.data());
    ::_exit(127);
  }
  ::close(in);
}

Process::~Process() {
  signal(SIGKILL);
  reap(0);
  ::close(out_);
  ::close(err_);
}

void Process::reap(int options) {
  if (ended_) return;
  int status = 0;
  pid_t got = 0;
  do got = ::waitpid(pid_, &status, options);
  while (got < 0 && errno == EINTR);
  if (got == pid_) ended_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool Process::running() {
  reap(WNOHANG);
  return !ended_;
}

void Process::signal(int number) {
  if (running()) ::kill(pid_, number);
}

std::optional<int> Process::wait(Milliseconds at_most) {
  wait_until([this] { return !running(); }, at_most);
  return ended_;
}

std::string Process::out(std::size_t from) const {
  return content(out_, from);
}
std::string Process::err() const {
  return content(err_);
}

Ended run(const std::vector<std::string>& command, const Environment& environment, const std::string& input) {
  Process process(command, environment, input);
  const auto code = process.wait();
  if (!code) throw std::runtime_error(command.front() + " does not end: " + process.err());
  return {*code, process.out(), process.err()};
}

Ended run_binary(std::vector<std::string> arguments, const Environment& environment) {
  arguments.insert(arguments.begin(), FF_BINARY);
  return run(arguments, environment);
}

Environment over_one_group(Environment environment) {
  environment.emplace("FF_RECONCILER_PARTITIONS", "0-15");
  return environment;
}

namespace {

std::string with_http(const std::string& config) {
  return config + "\nhttp: {listen: \"127.0.0.1:0\"}\n";
}

Environment with_database(Environment environment, const std::string& conninfo) {
  environment.emplace("FF_DATABASE_URL", conninfo);
  return environment;
}

}  // namespace

RunningDaemon::RunningDaemon(const Options& options)
    : config_file_(directory_.write("config.yaml", with_http(options.config))),
      process_({options.program.empty() ? FF_BINARY : options.program, "run", "--config", config_file_},
               with_database(options.environment, options.conninfo)) {}

void RunningDaemon::rewrite_config(const std::string& config) {
  directory_.write("config.yaml", with_http(config));
}

// It says so in its log, right after it has begun to listen.
bool RunningDaemon::knows_port() {
  constexpr std::string_view kBefore = "serves http on 127.0.0.1:";
  if (port_ != 0) return true;
  const std::string log = process_.err();
  const auto at = log.find(kBefore);
  if (at == std::string::npos || log.find(',', at) == std::string::npos) return false;
  port_ = static_cast<unsigned short>(std::stoi(log.substr(at + kBefore.size())));
  return true;
}

unsigned short RunningDaemon::port() {
  wait_until([&] { return knows_port() || !process_.running(); });
  if (!knows_port()) throw std::runtime_error("the daemon does not come up: " + process_.err());
  return port_;
}

void RunningDaemon::wait_until_ready() {
  bool is_ready = false;
  wait_until([&] { return (is_ready = knows_port() && ready()) || !process_.running(); }, 30s, 1ms);
  if (!is_ready) throw std::runtime_error("the daemon does not become ready: " + process_.err());
}

RunningDaemon::Reply RunningDaemon::get(const std::string& path) {
  const bool is_kept = path != "/livez" && path != "/readyz";
  if (const auto last = heard_.find(path); last != heard_.end())
    std::this_thread::sleep_for(last->second + kKept - Clock::system().now());
  Reply reply;
  reply.status = daemon::http_get_status("127.0.0.1", port(), path, kHttpTime, &reply.body);
  if (is_kept) heard_[path] = Clock::system().now();
  return reply;
}

std::string RunningDaemon::state() {
  return nlohmann::json::parse(get("/readyz").body).at("state");
}

double RunningDaemon::metric(const std::string& sample) {
  const std::string text = '\n' + get("/metrics").body;
  const auto at = text.find('\n' + sample + ' ');
  if (at == std::string::npos) return std::numeric_limits<double>::quiet_NaN();
  return std::stod(text.substr(at + sample.size() + 2));
}

std::optional<int> RunningDaemon::stop() {
  process_.signal(SIGTERM);
  return process_.wait();
}

}  // namespace ff::test
