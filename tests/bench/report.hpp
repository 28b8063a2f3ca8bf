#pragma once

#include <filesystem>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/figures.hpp"
#include "pg/connect.hpp"

namespace ff::bench {

/// Where the figures go: each regime is printed as soon as it has been measured; all of them, with the machine, are in
/// `bench.json`, which is written anew each time, so that a run that is broken off leaves what it has.
class Report {
 public:
  /// Makes the directory. `connector`: to the server by which is measured. Throws std::runtime_error when the directory
  /// cannot be written to.
  Report(std::ostream& out, std::filesystem::path directory, const pg::Connector& connector, bool quick);

  void add(Regime regime);
  /// A measurement that could not be made.
  void add_failure(std::string_view measurement, std::string_view why);

  const std::vector<Regime>& regimes() const { return regimes_; }
  bool complete() const { return failures_.empty(); }
  /// How many of the figures that were wanted have been reached.
  void print_summary() const;

 private:
  void print(const Regime& regime) const;
  void write_json() const;

  std::ostream& out_;
  const std::filesystem::path directory_;
  const nlohmann::ordered_json machine_;
  const bool quick_;
  std::vector<Regime> regimes_;
  std::vector<std::pair<std::string, std::string>> failures_;
};

}  // namespace ff::bench
