#include "faults/soak_meter.hpp"

#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <limits>

#include "support/metrics_text.hpp"

namespace ff::faults {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

constexpr const char* kOfServer = R"sql(
  SELECT (pg_catalog.pg_current_wal_lsn() - '0/0')::float8, xact_commit::float8,
         pg_catalog.pg_database_size(datname)::float8
    FROM pg_catalog.pg_stat_database WHERE datname = pg_catalog.current_database())sql";

std::string label(const std::string& labels, const std::string& name) {
  const std::size_t begin = labels.find(name + "=\"");
  if (begin == std::string::npos) return {};
  const std::size_t value = begin + name.size() + 2;
  return labels.substr(value, labels.find('"', value) - value);
}

using Histogram = std::map<double, double>;

bool has_dates(const std::string& reconciler) {
  return reconciler != "index_repair" && reconciler != "quota_concurrency";
}

Histogram rows_between(const Sample& from, const Sample& to,
                       const std::function<bool(const std::string&)>& is_wanted) {
  Histogram rows;
  for (const auto& [name, late] : to.sums.late) {
    if (!is_wanted(name)) continue;
    const auto before = from.sums.late.find(name);
    for (const auto& [most, number] : late)
      rows[most] += number - (before == from.sums.late.end() ? 0 : before->second.at(most));
  }
  return rows;
}

double quantile(const Histogram& late, double share) {
  if (late.empty()) return 0;
  const double wanted = share * late.rbegin()->second;
  double below = 0;
  double least = 0;
  for (const auto& [most, rows] : late) {
    if (rows >= wanted && rows > below) {
      if (most == std::numeric_limits<double>::infinity()) return least;
      return least + (most - least) * (wanted - below) / (rows - below);
    }
    below = rows;
    least = most;
  }
  return 0;
}

int threads_of(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  return 0;
}

}  // namespace

double Sums::all_moved() const {
  double all = 0;
  for (const auto& [reconciler, number] : moved) all += number;
  return all;
}

Meter::Meter(World& world) : world_(world), db_(world.connect()), begun_(Clock::system().now()) {
  Sample first;
  read_server(first);
  first_wal_ = sums_.wal_bytes;
  first_commits_ = sums_.commits;
  for (int replica = 0; replica < kReplicas; ++replica) read_replica(replica, first);
  sums_ = {};  // what was before does not count
}

Sample Meter::take() {
  Sample sample;
  sample.at = std::chrono::duration<double>(Clock::system().now() - begun_).count();
  for (int replica = 0; replica < kReplicas; ++replica) read_replica(replica, sample);
  read_server(sample);
  sample.sums = sums_;
  return sample;
}

void Meter::read_replica(int replica, Sample& sample) {
  const auto index = static_cast<std::size_t>(replica);
  const pid_t pid = world_.replicas().process(replica).pid();
  auto& last = last_.at(index);
  if (std::exchange(pids_.at(index), pid) != pid) last.clear();
  const std::string all = world_.replicas().metrics(replica);
  sample.held.at(index) = {.resident_mib = test::metric_sum(all, "process_resident_memory_bytes") / kMib,
                           .descriptors = test::metric_sum(all, "process_open_fds"),
                           .threads = threads_of(pid)};
  const auto each = [&](const std::string& name, const auto& count) {
    test::each_sample(all, name, [&](const std::string& labels, double value) {
      count(labels, value - std::exchange(last[name + labels], value));
    });
  };
  each("ff_reconciler_processed_total",
       [&](const std::string& labels, double more) { sums_.moved[label(labels, "reconciler")] += more; });
  each("ff_reconciler_errors_total", [&](const std::string& labels, double more) {
    if (more > 0) sums_.errors[label(labels, "reconciler") + ' ' + label(labels, "class")] += more;
  });
  each("ff_reconciler_row_lateness_seconds_bucket", [&](const std::string& labels, double more) {
    const std::string most = label(labels, "le");
    sums_.late[label(labels, "reconciler")]
              [most == "+Inf" ? std::numeric_limits<double>::infinity() : std::stod(most)] += more;
  });
}

void Meter::read_server(Sample& sample) {
  const pg::Result result = db_.execute(kOfServer);
  sums_.wal_bytes = result.one().get<double>(0) - first_wal_;
  sums_.commits = result.one().get<double>(1) - first_commits_;
  sums_.database_bytes = result.one().get<double>(2);
  sample.sums = sums_;
}

double lateness(const Sample& from, const Sample& to, double share, const std::string& reconciler) {
  const auto is_wanted = [&](const std::string& name) {
    return reconciler.empty() ? has_dates(name) : name == reconciler;
  };
  return quantile(rows_between(from, to, is_wanted), share);
}

double lateness_but(const Sample& from, const Sample& to, double share,
                    const std::set<std::string>& left_out) {
  const auto is_wanted = [&](const std::string& name) { return has_dates(name) && !left_out.contains(name); };
  return quantile(rows_between(from, to, is_wanted), share);
}

}  // namespace ff::faults
