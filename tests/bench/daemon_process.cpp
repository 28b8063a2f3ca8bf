#include "bench/daemon_process.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "bench/process_cost.hpp"
#include "http_server.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kPoll = 1ms;
constexpr Milliseconds kHttpTime = 10s;
constexpr Milliseconds kStopTime = 60s;
constexpr const char* kHost = "127.0.0.1";

constexpr const char* kConfig = R"(
recovery_grace: 0s
http: {listen: "127.0.0.1:0"}
)";

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

DaemonProcess::DaemonProcess(const std::string& conninfo, const std::string& config) {
  const auto file = directory_.path() / "config.yaml";
  const bool says = config.find("storm:") != std::string::npos;
  write_file(file, kConfig + std::string(says ? "" : "storm: off\n") + config);
  process_ = std::make_unique<testserver::ChildProcess>(
      testserver::Command{.program = FF_BINARY,
                          .arguments = {"run", "--config", file.string()},
                          .environment = {"FF_DATABASE_URL=" + conninfo},
                          .directory = directory_.path(),
                          .output = directory_.path() / "log",
                          .account = {}});
}

std::string DaemonProcess::log() const {
  std::ostringstream text;
  text << std::ifstream(directory_.path() / "log").rdbuf();
  return text.str();
}

// The daemon says it in its log, right after it has begun to listen.
bool DaemonProcess::knows_port() {
  constexpr std::string_view kBefore = "serves http on 127.0.0.1:";
  if (port_ != 0) return true;
  const std::string text = log();
  const auto at = text.find(kBefore);
  const auto end = at == std::string::npos ? at : text.find(',', at);
  if (end == std::string::npos) return false;
  port_ = static_cast<unsigned short>(std::stoi(text.substr(at + kBefore.size())));
  return true;
}

bool DaemonProcess::ready() {
  return knows_port() && daemon::http_get_status(kHost, port_, "/readyz", kHttpTime) == 200;
}

void DaemonProcess::wait_until_ready(Milliseconds at_most) {
  const SteadyTime deadline = Clock::system().now() + at_most;
  while (!ready()) {
    if (process_->ended()) fail("the daemon " + process_->state());
    if (Clock::system().now() >= deadline) fail("the daemon does not become ready");
    std::this_thread::sleep_for(kPoll);
  }
}

std::string DaemonProcess::metrics() {
  if (!knows_port()) fail("the daemon does not serve http yet");
  std::string body;
  const int status = daemon::http_get_status(kHost, port_, "/metrics", kHttpTime, &body);
  if (status != 200) fail(fmt::format("/metrics answers {}", status));
  return body;
}

double DaemonProcess::cpu_seconds() const {
  return cpu_seconds_of(process_->pid());
}

double DaemonProcess::most_resident_mib() const {
  return most_resident_mib_of(process_->pid());
}

void DaemonProcess::stop() {
  process_->send(SIGTERM);
  if (!process_->wait_until(Clock::system().now() + kStopTime) || !process_->succeeded())
    fail("the daemon was asked to stop and " + process_->state());
}

void DaemonProcess::fail(const std::string& what) const {
  constexpr std::size_t kShown = 2000;
  const std::string text = log();
  throw std::runtime_error(what + "; the end of its log:\n" +
                           (text.size() > kShown ? text.substr(text.size() - kShown) : text));
}

std::int64_t processed_rows(const std::string& metrics, const std::string& reconciler) {
  const std::string labels = reconciler.empty() ? "" : fmt::format("reconciler=\"{}\"", reconciler);
  return std::llround(metric_sum(metrics, "ff_reconciler_processed_total", labels));
}

void require_no_errors(const std::string& metrics) {
  const double errors = metric_sum(metrics, "ff_reconciler_errors_total");
  if (errors != 0) throw std::runtime_error(fmt::format("the daemon counted {} errors", errors));
}

}  // namespace ff::bench
