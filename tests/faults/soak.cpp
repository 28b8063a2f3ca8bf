#include "faults/soak.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "faults/audit.hpp"
#include "faults/feed.hpp"
#include "faults/soak_verdicts.hpp"

namespace ff::faults {
namespace {

using namespace std::chrono_literals;
using simulation::Verdict;
using Json = nlohmann::json;

constexpr Milliseconds kWarmUp = 3s;
constexpr int kMostSamples = 720;
constexpr Milliseconds kOftenest = 1s;
constexpr Milliseconds kBetweenFaults = 60s;
constexpr int kLines = 60;  // printed of the samples
constexpr double kMib = 1024.0 * 1024.0;

/// The first replica lives throughout: what grows is to be seen in it.
std::string do_harm(World& world) {
  if (world.random(0, 2) == 0) {
    world.terminate_sessions();
    return "all sessions ended";
  }
  const int replica = static_cast<int>(world.random(1, kReplicas - 1));
  world.replicas().kill(replica);
  return fmt::format("replica {} killed", replica);
}

/// Half to one and a half of the usual time, which is a quarter of the whole at most.
Milliseconds until_next_harm(World& world, const SoakOptions& options) {
  const Milliseconds usual = std::min<Milliseconds>(kBetweenFaults, options.length / 4);
  return Milliseconds{world.random(usual.count() / 2, usual.count() * 3 / 2)};
}

void print(const Sample& before, const Sample& now) {
  const double time = std::max(now.at - before.at, 0.001);
  std::string held;
  for (const Held& each : now.held)
    held += fmt::format("  {:.1f} MiB {:.0f} fd {} thr", each.resident_mib, each.descriptors, each.threads);
  fmt::print("{:>5.0f} s{}  {:.0f} rows/s  late p50 {:.0f} ms, p99 {:.0f} ms  {:.0f} MiB\n", now.at, held,
             (now.sums.all_moved() - before.sums.all_moved()) / time, lateness(before, now, 0.5) * 1000,
             lateness(before, now, 0.99) * 1000, now.sums.database_bytes / kMib);
}

std::vector<Sample> sample_under_harm(World& world, const Feed& feed, const SoakOptions& options) {
  Meter meter(world);
  const Milliseconds between = std::max<Milliseconds>(kOftenest, options.length / kMostSamples);
  const SteadyTime begun = Clock::system().now();
  SteadyTime harm = begun + until_next_harm(world, options);
  std::vector<Sample> samples{meter.take()};
  Sample printed = samples.front();
  for (SteadyTime next = begun + between; next <= begun + options.length; next += between) {
    std::this_thread::sleep_until(next);
    samples.push_back(meter.take());
    if (!feed.errors().empty()) throw std::runtime_error("the feed ended: " + feed.errors().front());
    if (const auto* real = world.real_workers(); real != nullptr && !real->errors().empty())
      throw std::runtime_error("a worker ended before its time: " + real->errors().front());
    if (samples.back().at - printed.at >= static_cast<double>(options.length.count()) / kLines) {
      print(printed, samples.back());
      printed = samples.back();
    }
    if (Clock::system().now() < harm) continue;
    fmt::print("        {}\n", do_harm(world));
    harm = Clock::system().now() + until_next_harm(world, options);
  }
  return samples;
}

void print_figures(const Sample& first, const Sample& last, std::int64_t claims) {
  const double moved = std::max(last.sums.all_moved(), 1.0);
  fmt::print("\nmoved {:.0f} rows, {:.0f} a second; of the feed {} fell due, {:.0f} a second\n", moved,
             moved / last.at, claims, static_cast<double>(claims) / last.at);
  for (const auto& [reconciler, number] : last.sums.moved)
    if (number > 0)
      fmt::print("  {:<26} {:>8.0f}  late p50 {:.0f} ms, p99 {:.0f} ms\n", reconciler, number,
                 lateness(first, last, 0.5, reconciler) * 1000,
                 lateness(first, last, 0.99, reconciler) * 1000);
  fmt::print(
      "the server, workers included: {:.0f} bytes of WAL and {:.2f} commits a moved row; {:.0f} MiB\n\n",
      last.sums.wal_bytes / moved, last.sums.commits / moved, last.sums.database_bytes / kMib);
}

Json to_json(const Sample& sample) {
  Json json{{"at_s", sample.at},
            {"moved", sample.sums.moved},
            {"errors", sample.sums.errors},
            {"wal_bytes", sample.sums.wal_bytes},
            {"commits", sample.sums.commits},
            {"database_bytes", sample.sums.database_bytes},
            {"replicas", Json::array()}};
  for (const Held& each : sample.held)
    json["replicas"].push_back(
        {{"resident_mib", each.resident_mib}, {"descriptors", each.descriptors}, {"threads", each.threads}});
  return json;
}

void write_json(const SoakOptions& options, const std::vector<Sample>& samples,
                const std::vector<Verdict>& verdicts) {
  Json json{{"seed", options.seed},
            {"rate", options.rate},
            {"samples", Json::array()},
            {"verdicts", Json::array()}};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    Json each = to_json(samples[i]);
    const Sample& before = samples[i == 0 ? 0 : i - 1];
    each["late_p50_s"] = lateness(before, samples[i], 0.5);
    each["late_p99_s"] = lateness(before, samples[i], 0.99);
    json["samples"].push_back(std::move(each));
  }
  for (const Verdict& verdict : verdicts)
    json["verdicts"].push_back({{"question", verdict.question},
                                {"held", verdict.balanced},
                                {"numbers", verdict.numbers},
                                {"evidence", verdict.evidence}});
  std::ofstream out(options.json);
  out << json.dump(2) << '\n';
  if (!out.flush()) throw std::runtime_error("cannot write " + options.json);
}

}  // namespace

bool soak(const SoakOptions& options) {
  fmt::print("seed {}, {} s, {} rows a second\n\n", options.seed, options.length.count(), options.rate);
  World world({.durable = true}, false, options.seed);
  if (!world.why_simulated_only().empty())
    fmt::print("without FlowFabric's own workers: {}\n\n", world.why_simulated_only());
  Feed feed(world, options.rate);
  std::this_thread::sleep_for(kWarmUp);
  std::array<Footprint, kReplicas> before{};
  for (int i = 0; i < kReplicas; ++i) before.at(static_cast<std::size_t>(i)) = world.replicas().footprint(i);
  const std::vector<Sample> samples = sample_under_harm(world, feed, options);
  feed.end();
  print_figures(samples.front(), samples.back(), feed.claims());
  std::vector<Verdict> verdicts = compare_thirds(samples);
  verdicts.push_back(unexplained(samples.back().sums.errors));
  world.replicas().wait_until_ready();
  std::vector<Verdict> audited = audit(world, false, before);
  std::move(audited.begin(), audited.end(), std::back_inserter(verdicts));
  for (const Verdict& verdict : verdicts) {
    fmt::print("{:<6} {}: {}\n", verdict.balanced ? "held" : "BROKEN", verdict.question, verdict.numbers);
    for (const std::string& line : verdict.evidence) fmt::print("       {}\n", line);
  }
  if (!options.json.empty()) write_json(options, samples, verdicts);
  return std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& each) { return each.balanced; });
}

}  // namespace ff::faults
