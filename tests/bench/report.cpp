#include "bench/report.hpp"

#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <ostream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "base/time.hpp"
#include "bench/backlog.hpp"

namespace ff::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLineWidth = 110;

// The server's settings that matter here: "fsync on, shared_buffers 1GB, …"
constexpr std::string_view kSettings = R"sql(
SELECT string_agg(name || ' ' || current_setting(name), ', ' ORDER BY place)
  FROM unnest(ARRAY['fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'max_wal_size',
                    'checkpoint_timeout', 'autovacuum']) WITH ORDINALITY AS _(name, place))sql";

// Empty where the kernel does not say.
std::string processor_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return {};
}

// On what the figures are measured.
Json this_machine(const pg::Connector& connector) {
  auto connection = connect(connector);
  struct sysinfo memory {};
  utsname system{};
  if (::sysinfo(&memory) != 0 || ::uname(&system) != 0)
    throw std::system_error(errno, std::generic_category(), "the machine's description");
  return {{"processors", std::thread::hardware_concurrency()},
          {"processor", processor_model()},
          {"memory_gib", static_cast<double>(memory.totalram) * memory.mem_unit / (1UL << 30)},
          {"kernel", std::string(system.sysname) + " " + system.release},
          {"postgresql", connection.execute("SHOW server_version").one().get<std::string>(0)},
          {"settings", connection.execute(kSettings).one().get<std::string>(0)}};
}

}  // namespace

// Where nlohmann's library finds them.
void to_json(Json& json, const Way& way) {
  json = {{"name", way.name}, {"median", way.median()}, {"rounds", way.rounds}};
}
void to_json(Json& json, const Goal& goal) {
  json = {{"wanted", goal.wanted}, {"reached", goal.reached}, {"met", goal.met}};
}
void to_json(Json& json, const Curve& curve) {
  json = {{"name", curve.name}, {"points", curve.points}};
}
void to_json(Json& json, const Plot& plot) {
  json = {{"x", plot.x},
          {"y", plot.y},
          {"logarithmic_x", plot.logarithmic_x},
          {"logarithmic_y", plot.logarithmic_y},
          {"curves", plot.curves}};
}
void to_json(Json& json, const Regime& regime) {
  json = {{"name", regime.name},   {"title", regime.title},     {"unit", regime.unit}, {"ways", regime.ways},
          {"goals", regime.goals}, {"remarks", regime.remarks}, {"plot", regime.plot}};
}

namespace {

// What a way is compared with: ours under the same conditions ("floor, 10 rows" with "ours, 10 rows") or else
// the first one. Null: nothing.
const Way* counterpart(const Regime& regime, const Way& way) {
  const auto comma = way.name.find(',');
  const std::string ours = "ours" + (comma == std::string::npos ? "" : way.name.substr(comma));
  const auto same = std::find_if(regime.ways.begin(), regime.ways.end(),
                                 [&](const Way& each) { return each.name == ours; });
  if (same != regime.ways.end() && &*same != &way) return &*same;
  const Way& first = regime.ways.front();
  const bool is_ours = way.name.starts_with("ours") && first.name != "ours";
  return &first == &way || is_ours ? nullptr : &first;
}

std::string ratio(const Regime& regime, const Way& way) {
  const Way* const ours = counterpart(regime, way);
  if (ours == nullptr || way.median() == 0) return "";
  return fmt::format("{} is {} times this", ours->name, figure(ours->median() / way.median()));
}

// In lines broken at spaces.
std::vector<std::string> wrapped(std::string_view text) {
  std::vector<std::string> lines{""};
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > kLineWidth) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + std::string(word);
  }
  return lines;
}

std::string paragraph(std::string_view mark, std::string_view text) {
  std::string all;
  for (const std::string& line : wrapped(text))
    all += fmt::format("  {:<8}{}\n", all.empty() ? mark : "", line);
  return all;
}

}  // namespace

Report::Report(std::ostream& out, std::filesystem::path directory, const pg::Connector& connector, bool quick)
    : out_(out), directory_(std::move(directory)), machine_(this_machine(connector)), quick_(quick) {
  std::filesystem::create_directories(directory_);
  const auto text = [&](const char* what) { return machine_.at(what).get<std::string>(); };
  const std::string processor = text("processor");
  out_ << fmt::format("PostgreSQL {}: {}\n{} processors{}{}, {:.1f} GiB, {}\n\n", text("postgresql"),
                      text("settings"), machine_.at("processors").get<int>(), processor.empty() ? "" : ", ",
                      processor, machine_.at("memory_gib").get<double>(), text("kernel"))
       << std::flush;
  write_json();
}

void Report::add(Regime regime) {
  print(regime);
  regimes_.push_back(std::move(regime));
  write_json();
}

void Report::add_failure(std::string_view measurement, std::string_view why) {
  out_ << measurement << '\n' << paragraph("FAILED", why) << '\n' << std::flush;
  failures_.emplace_back(measurement, why);
  write_json();
}

void Report::print(const Regime& regime) const {
  std::size_t width = 0;
  for (const Way& way : regime.ways) width = std::max(width, way.name.size());
  out_ << regime.name << '\n' << paragraph("", regime.title);
  for (const Way& way : regime.ways) {
    const std::string compared = ratio(regime, way);
    out_ << fmt::format("          {:<{}}{:>12} {:<{}}{}\n", way.name, width, figure(way.median()),
                        regime.unit, compared.empty() ? 0 : 12, compared);
  }
  for (const Goal& goal : regime.goals)
    out_ << paragraph(goal.met ? "met" : "missed", fmt::format("{}: {}", goal.wanted, goal.reached));
  for (const std::string& remark : regime.remarks) out_ << paragraph("note", remark);
  out_ << '\n' << std::flush;
}

void Report::print_summary() const {
  int wanted = 0, met = 0;
  for (const Regime& regime : regimes_)
    for (const Goal& goal : regime.goals) {
      ++wanted;
      met += goal.met ? 1 : 0;
    }
  out_ << fmt::format("{} of {} wanted figures reached{}; all figures are in {}\n", met, wanted,
                      quick_ ? " (few rows and one round: not to be quoted)" : "",
                      (directory_ / "bench.json").string());
}

void Report::write_json() const {
  Json failures = Json::array();
  for (const auto& [measurement, why] : failures_)
    failures.push_back({{"measurement", measurement}, {"why", why}});
  const Json all = {{"unix_ms", count(Clock::system().wall())},
                    {"quick", quick_},
                    {"machine", machine_},
                    {"regimes", regimes_},
                    {"failures", failures}};
  std::ofstream file(directory_ / "bench.json", std::ios::trunc);
  file << all.dump(2) << '\n';
  file.close();
  if (!file) throw std::runtime_error("cannot write " + (directory_ / "bench.json").string());
}

}  // namespace ff::bench
