#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "histories/theatre.hpp"
#include "support/dice.hpp"

namespace ff::test {

struct GeneratorOptions {
  std::uint64_t seed = 1;
  int executions = 60;
  int steps = 600;
  bool behind = false;      ///< some workers' clocks are
  std::string prefix = {};  ///< of the numbers in names, where several invent at once
};

/// Invents a history while it is played: what comes next is drawn from what is possible now.
class Generator {
 public:
  Generator(Theatre& theatre, const GeneratorOptions& options)
      : theatre_(theatre), options_(options), dice_(options.seed) {}
  /// The steps that were performed, refused ones among them.
  History play();
  /// One more step, or a few that belong together.
  void next();

 private:
  void take(const Step& step);
  void create();
  void create_alone();
  void create_flow();
  std::string create_member(const std::string& flow, int partition);
  void connect(const std::string& flow, const std::vector<std::string>& members);
  void add_edge();
  void pass_time();
  void rescue();
  void live(const std::string& execution);
  void submit(const std::string& execution);
  void begin(const std::string& execution, const ExecutionRows& rows);
  void work(const std::string& execution, const ExecutionRows& rows);
  void work_with(const Lease& lease, const ExecutionRows& rows);
  void suspend(const Lease& lease);
  void wake(const std::string& execution, const ExecutionRows& rows);
  void operate(const std::string& execution);
  void reclaim(const std::string& execution);
  void haunt(const std::string& execution);
  void signal(const std::string& execution);
  std::string some_flow();
  void cancel_flow();
  void spend(const Lease& lease);
  std::string some_budget();
  void use_quota(const std::string& execution);
  std::string some_quota();
  void register_workers();
  Step claim_step(const char* what, const std::string& execution);
  std::string new_name(char kind);
  const Lease* lease_of(const std::string& execution) const;

  Theatre& theatre_;
  const GeneratorOptions options_;
  Dice dice_;
  History history_;
  std::map<char, int> named_;
};

}  // namespace ff::test
