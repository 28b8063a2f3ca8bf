#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "lease/cursor.hpp"
#include "lease/outbox_reader.hpp"

namespace ff::lease {

/// From when ids are found to be handed out a second time until the sequence is past the cursors and it is known from where on
/// to read, as far as that can be known.
struct IdJump {
  std::int64_t up_to = 0;                // the last id that is not delivered
  std::optional<std::int64_t> lowest{};  // where the sequence was seen; nothing: never too low
  bool stands = false;                   // the last one that is remembered does
  SteadyTime said_at{};                  // that the sequence is too low
};

/// Notices that event ids are handed out a second time: after a failover to a standby that had not received the
/// last writes, after a restore, after a sequence was set back. Events with such ids stand before the cursors of
/// those who follow, and are never delivered.
///
/// It shows in the sequence while that is lower than the last id that was settled here, and afterwards in that another event
/// stands where that one stood. A cursor that somebody came with proves nothing: see beyond().
///
/// From where on to read what is not delivered: others may have written before we came to look, and where the sequence stands
/// moves on with what they write. So the polls then ask for one of the last events after the other, back from the newest that can
/// still be there, until one of them is what it was.
///
/// Pure: no database, no clock. Not thread-safe.
class IdWatch {
 public:
  /// The event whose hash the next poll asks for; 0: none.
  std::int64_t known() const { return past_.empty() ? 0 : past_.back().event_id; }

  /// What has to be said aloud: when it begins, when it is known from where on to read, each minute while the sequence is too
  /// low, and at the end.
  std::optional<std::string> note(const OutboxHead& seen, SteadyTime at);

  /// The last event that is settled, as the poll saw it that saw it first.
  void settled(const Fingerprint& event);

 private:
  bool is_another(const OutboxHead& seen) const;
  bool look_back(const OutboxHead& seen);
  std::string way_to_read() const;

  std::vector<Fingerprint> past_;  // settled events, rising; in a jump without those that are found gone
  std::int64_t settled_ = 0;
  std::optional<IdJump> jump_;
};

/// What is to be said of a cursor from outside that lies beyond every id that has been handed out; nothing: it does not.
struct Beyond {
  bool is_refused = false;  // so far that no failover explains it
  std::string text;
};
/// Where the sequence may not be read, only one that is refused is noticed.
std::optional<Beyond> beyond(Cursor start, const OutboxHead& seen);

}  // namespace ff::lease
