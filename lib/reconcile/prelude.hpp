#pragma once

#include <optional>
#include <set>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "pg/params.hpp"
#include "pg/transaction.hpp"

namespace ff::reconcile {

/// What has to be found out before a pair is looked at, where it stands in other partitions than the pair's rows, or has
/// to be remembered from scan to scan: a pair's engine has one of its own, asks it before each scan, and gives its answer to
/// the statements of the pair as their own parameters. One thread at a time.
class Prelude {
 public:
  struct Inquiry {
    pg::Transaction& transaction;
    /// What others say is believed only once it has stood for a while: a daemon asks again and again, and can wait. By
    /// hand it is taken at its word.
    bool wary = false;
    /// False: it is asked only because the moment has come that its last answer named (Answer::ask_again). Only what bears on
    /// that answer need be read; whatever else is new is found by the next scan.
    bool scan = true;
  };
  struct Answer {
    pg::Params params;                    ///< the values of Reconciler::own_parameters
    std::set<PartitionKey> worth_a_scan;  ///< of others it would find nothing
    UnixMillis database_time{};
    std::optional<UnixMillis>
        ask_again;  ///< the next moment from which it may be worth one, where it is known ahead
  };

  virtual ~Prelude() = default;
  /// Throws pg::Error.
  virtual Answer ask(const Inquiry& inquiry) = 0;
  /// All that the last answer led to has been moved.
  virtual void settled() {}
};

}  // namespace ff::reconcile
