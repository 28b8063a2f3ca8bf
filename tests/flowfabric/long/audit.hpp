#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "histories/stage.hpp"
#include "long/ledger.hpp"
#include "long/worker.hpp"

namespace ff::test {

/// The application names of who is no worker.
constexpr const char* kDaemonSessions = "ff-reconcilerd";
constexpr const char* kServerSessions = "ff-server";

/// What came of a run, held against what may be: each transaction of the daemon is judged as a turn of a history
/// is, and what workers were told against what others did meanwhile.
class Audit {
 public:
  /// `deeds`: of all workers.
  Audit(std::vector<Commit> commits, std::vector<Deed> deeds);

  void judge_commits();
  /// Tells the stage of all that was done, and blames there what its exclusions may forgive.
  void tell(Stage& stage);

  /// What is forgiven to nobody.
  const std::vector<Verdict>& verdicts() const { return verdicts_; }
  /// Everything that happened to one execution, for people.
  std::string biography(const std::string& execution) const;

  struct Counts {
    int of_the_daemon = 0;  ///< its transactions
    int leases_taken = 0;
    int ended = 0;          ///< by the daemon
    int by_the_server = 0;  ///< transactions of FlowFabric's own scanners
    int ended_twice_by_workers = 0;
    int done_unheard = 0;  ///< by processes that were killed before they answered
    std::map<std::string, int> refusals;
  };
  const Counts& counts() const { return counts_; }

 private:
  /// What is known of a deed apart from its worker's words.
  struct Trace {
    bool committed = false;
    /// Its execution, or those of its flow that it changed, as its last transaction found and left them.
    RowsByName before;
    RowsByName after;
    bool found_ended_by_the_daemon = false;
    Json created;  ///< the core's row, where it made one
  };
  struct Touch {
    std::int64_t at_ms;
    std::string who;
  };
  struct Taken {
    std::int64_t at_ms;
    std::int64_t epoch;  ///< of the lease that was taken
  };

  void judge_commit(const Commit& commit);
  void trace(const Commit& commit);
  std::optional<std::size_t> deed_of(const Commit& commit) const;
  void check_refusal(Stage& stage, const Deed& deed) const;
  void check_fence(Stage& stage, const Deed& deed) const;
  void check_second_end(Stage& stage, const Deed& deed, const Trace& trace);
  std::string name_of(const std::string& uuid);
  RowsByName named(const std::set<std::string>& uuids);

  const std::vector<Commit> commits_;
  std::vector<Deed> deeds_;
  std::vector<Trace> traces_;                                        // one for each deed
  std::map<std::string, std::vector<std::size_t>> by_who_;           // indexes of deeds
  std::map<std::string, std::string> uuids_;                         // name -> uuid
  std::map<std::string, std::vector<Touch>> touched_;                // core or attempts, by uuid
  std::map<std::pair<std::string, int>, std::vector<Taken>> taken_;  // by uuid and attempt
  std::map<std::string, std::string> ended_by_;                      // uuid -> who, while it is ended
  Ledger ledger_;
  std::vector<Verdict> verdicts_;
  Counts counts_;
};

}  // namespace ff::test
