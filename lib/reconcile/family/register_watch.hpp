#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "pg/snapshot_watch.hpp"
#include "reconcile/family/liveness.hpp"
#include "reconcile/prelude.hpp"
#include "reconcile/sightings.hpp"

namespace ff::reconcile {

/// Watches the register of workers, and tells whose leases are to be ended: what dead_worker asks first. Each scan reads all
/// of the register, a row a worker, unless nobody has written anything since the last one; when the moment comes that a worker would die, only the partitions of those who may be dead
/// by then are read. Only where somebody may have died are the leases looked through, and then all of them, whatever partitions
/// the engine has: each is a sign of life. Once after the beginning they are looked through as well, for those who were taken
/// off the register before.
///
/// The answer's parameters: the instances that are dead, as text[], beside them the namespaces that they had registered
/// in, text[], and since when, bigint[]; an instance may stand there several times.
class RegisterWatch final : public Prelude {
 public:
  Answer ask(const Inquiry& inquiry) override;
  void settled() override;

 private:
  using Name = liveness::Name;
  using Instances = std::set<std::string>;
  using PartitionSet = std::set<PartitionKey>;
  using Registered = std::pair<const Name, liveness::Registration>;
  /// What is found out in one round.
  struct Round {
    Round(pg::Transaction& its, bool is_wary) : transaction(its), wary(is_wary) {}
    pg::Transaction& transaction;
    const bool wary;
    std::int64_t now_ms = 0;
    pg::Snapshot snapshot;  ///< where it is wary
    int flow_partitions = 0;
    std::map<Name, liveness::Registration> registered;
    std::map<Name, std::int64_t> gone;  ///< and how long they live
    std::map<std::string, liveness::Leases> leases;
    std::vector<Partitions> lease_groups;
    std::map<std::string, std::set<std::size_t>> leased_in;  ///< the groups with a lease of it
    std::map<Name, liveness::LastEvents> events;
    std::vector<Name> dead;
    std::vector<std::int64_t> dead_from;
    std::optional<std::int64_t> next;

    bool is_registered(const std::string& instance) const;
    void ask_again(std::int64_t at_ms);
  };
  /// Not to be looked at before, while its heartbeat is the same.
  struct Rest {
    std::uint32_t heartbeat = 0;
    std::int64_t until_ms = 0;
    std::int64_t pause_ms = 0;  ///< the next one
  };

  void read_clock(Round& round);
  /// Its rows in these partitions; those in others stay as they are in the round.
  void read_register(Round& round, const PartitionSet& partitions);
  PartitionSet partitions_of_expected(Round& round) const;
  /// False: nobody is judged in this round.
  static bool are_all_in_sight(Round& round);
  void note_gone(const Round& round);
  Instances suspects(Round& round) const;
  void read_leases(Round& round, const Instances* of);
  void read_events(Round& round, const std::vector<Name>& of);
  void judge_registered(Round& round, const Instances& instances);
  void judge_gone(Round& round);
  const Sightings* sightings(const Round& round) const { return round.wary ? &sightings_ : nullptr; }
  /// Until then; nothing: until it may be worth a scan all the same.
  void rest(const Registered& worker, std::int64_t now_ms, std::optional<std::int64_t> until_ms);

  Sightings sightings_;
  bool begun_ = false;                                 // the leases have been looked through once
  std::map<Name, liveness::Registration> registered_;  // as it was read last
  pg::Snapshot all_read_at_;                           // the whole register
  std::map<Name, std::int64_t> gone_;                  // who has left it, and how long they lived
  std::map<std::string, Rest> resting_;
  std::vector<Name> told_;  // to be dead
  std::int64_t told_at_ms_ = 0;
};

}  // namespace ff::reconcile
