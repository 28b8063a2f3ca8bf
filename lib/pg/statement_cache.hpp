#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ff::pg {

/// Which statements a session keeps prepared, where there are more than it may keep.
///
/// A daemon sends the same statements round after round. Were each one prepared in place of the one that has not been sent
/// for longest, then as soon as a round has one statement more than there are places, each would be gone just before it is
/// sent again, and all would be planned in every round. So a place is kept until a statement comes again after no more than half
/// the time that the one it belongs to has not come for; what gets no place is sent unprepared. So is, for the first times, what
/// there is a cheaper way for.
///
/// By name only: who sends them does as it is told. Not thread-safe.
class StatementCache {
 public:
  explicit StatementCache(std::size_t most) : most_(most) {}

  /// How a statement that is sent now is to be sent.
  enum class Way {
    prepared,   ///< by the name that the server knows
    prepare,    ///< prepared first; from now on the server knows it
    unprepared  ///< by its text
  };
  /// `from_time`: what has not been sent as often before gets no place.
  Way send(const std::string& name, int from_time = 1);

  /// One that has to be given back to the server, because others have its place. Nothing: there are no more than may be.
  std::optional<std::string> surplus() const;
  /// The server does not know it any more, or never did.
  void erase(const std::string& name);

  bool contains(std::string_view name) const { return prepared_.contains(name); }
  std::size_t size() const { return prepared_.size(); }

 private:
  struct Sent {
    std::uint64_t turn = 0;  // the last one
    int times = 0;
  };
  bool deserves_a_place(std::uint64_t sent_before) const;

  std::size_t most_;
  std::map<std::string, std::uint64_t, std::less<>> prepared_;  // in which turn each was sent last
  std::map<std::string, Sent> unprepared_;
  std::uint64_t turn_ = 0;
};

}  // namespace ff::pg
