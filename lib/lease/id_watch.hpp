#pragma once

#include <optional>
#include <string>

#include "base/time.hpp"
#include "lease/outbox_reader.hpp"

namespace ff::lease {

/// Notices that event ids are handed out a second time: after a failover to a standby that had not received the
/// last writes, after a restore, after a sequence was set back. Events with such ids stand before the cursors of
/// those who follow, and are never delivered.
///
/// It shows in the sequence while that is lower than a cursor, and afterwards in that another event stands where
/// the last one stood that was settled. Who comes with a cursor of an earlier life is told of the first only.
///
/// Pure: no database, no clock. Not thread-safe.
class IdWatch {
 public:
  /// The event whose hash the next poll asks for.
  std::int64_t known() const { return known_.event_id; }

  /// What has to be said aloud: when it begins, and again each minute while it lasts. `reached`: the highest id
  /// that is settled or in a cursor.
  std::optional<std::string> note(const OutboxHead& seen, std::int64_t reached, SteadyTime at);

  /// The last event that is settled, as the poll saw it that saw it first.
  void settled(const Fingerprint& event);

 private:
  Fingerprint known_;
  std::optional<SteadyTime> said_at_;  // that the sequence is too low
};

}  // namespace ff::lease
