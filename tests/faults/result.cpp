#include "faults/result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace ff::faults {
namespace {

using Json = nlohmann::json;

Json to_json(const FaultResult& fault) {
  Json json{{"name", fault.name},
            {"what", fault.what},
            {"repetitions", fault.recoveries.size()},
            {"good", fault.good()},
            {"recovery_wanted_ms", fault.wanted.count()},
            {"recovery_ms", Json::array()},
            {"complaints", fault.complaints}};
  for (const Milliseconds each : fault.recoveries) json["recovery_ms"].push_back(each.count());
  for (const auto& [what, measure] : fault.measures)
    json["measures"][what] = {
        {"worst_ms", measure.worst.count()}, {"wanted_ms", measure.wanted.count()}, {"times", measure.times}};
  return json;
}

Json to_json(const ChapterResult& chapter) {
  Json json{{"name", chapter.name},
            {"good", chapter.good()},
            {"faults", Json::array()},
            {"audit", Json::array()},
            {"failure", chapter.failure}};
  for (const FaultResult& fault : chapter.faults) json["faults"].push_back(to_json(fault));
  for (const simulation::Verdict& verdict : chapter.verdicts)
    json["audit"].push_back({{"question", verdict.question},
                             {"true", verdict.balanced},
                             {"numbers", verdict.numbers},
                             {"evidence", verdict.evidence}});
  return json;
}

}  // namespace

bool FaultResult::good() const {
  return complaints.empty() && !recoveries.empty() && worst(recoveries) <= wanted &&
         std::all_of(measures.begin(), measures.end(),
                     [](const auto& each) { return each.second.worst <= each.second.wanted; });
}

bool ChapterResult::good() const {
  return failure.empty() && !verdicts.empty() &&
         std::all_of(faults.begin(), faults.end(), [](const FaultResult& each) { return each.good(); }) &&
         std::all_of(verdicts.begin(), verdicts.end(),
                     [](const simulation::Verdict& each) { return each.balanced; });
}

std::string to_text(Milliseconds length) {
  if (length < Milliseconds{1000}) return fmt::format("{} ms", length.count());
  return fmt::format("{:.1f} s", static_cast<double>(length.count()) / 1000);
}

Milliseconds median(std::vector<Milliseconds> lengths) {
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  return *middle;
}

Milliseconds worst(const std::vector<Milliseconds>& lengths) {
  return *std::max_element(lengths.begin(), lengths.end());
}

void print(const FaultResult& result) {
  const bool any = !result.recoveries.empty();
  fmt::print("{} {:<20} {:>4} times  first good tick: median {:>7}, worst {:>7} (wanted {})\n",
             result.good() ? "  " : "! ", result.name, result.recoveries.size(),
             any ? to_text(median(result.recoveries)) : "-", any ? to_text(worst(result.recoveries)) : "-",
             to_text(result.wanted));
  for (const auto& [what, measure] : result.measures)
    fmt::print("     {}: at most {} in {} times (wanted {})\n", what, to_text(measure.worst), measure.times,
               to_text(measure.wanted));
  for (const std::string& complaint : result.complaints) fmt::print("     {}\n", complaint);
}

void print(const ChapterResult& result) {
  for (const simulation::Verdict& verdict : result.verdicts) {
    fmt::print("{} {}: {}\n", verdict.balanced ? "  " : "! ", verdict.question, verdict.numbers);
    for (const std::string& line : verdict.evidence) fmt::print("     {}\n", line);
  }
  if (!result.failure.empty()) fmt::print("!  {}\n", result.failure);
  fmt::print("{}: {}\n\n", result.name, result.good() ? "held" : "GAVE WAY");
}

void write_json(const std::string& file, std::uint64_t seed, bool brief,
                const std::vector<ChapterResult>& chapters) {
  Json json{{"seed", seed}, {"short", brief}, {"chapters", Json::array()}};
  for (const ChapterResult& chapter : chapters) json["chapters"].push_back(to_json(chapter));
  std::ofstream out(file);
  out << json.dump(2) << '\n';
  if (!out.flush()) throw std::runtime_error("cannot write " + file);
}

}  // namespace ff::faults
