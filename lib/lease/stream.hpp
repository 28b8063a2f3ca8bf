#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "lease/delivery.hpp"
#include "lease/observer.hpp"
#include "lease/outbox_reader.hpp"
#include "pg/wake.hpp"

namespace ff::lease {

/// Between the reader and one consumer: where the subscription has got to, and the events that wait for the
/// consumer. Never more than kMostWaiting of them: a stretch() is asked for only when kMostRows fit, and the
/// reader is woken when there is room again. Safe from any thread; the reader's members from one thread at a
/// time, and so the consumer's.
class Stream {
 public:
  static constexpr std::size_t kMostWaiting = 1024;
  static constexpr std::size_t kMostRows = 256;

  /// `start` empty: behind the newest event. `reader` and `observer` must outlive this.
  Stream(std::optional<PartitionKey> partition, std::optional<Cursor> start, ScannerFilter filter,
         pg::Wake& reader, HistoryObserver& observer);

  // The reader's side.

  /// The cursor it was made with.
  std::optional<Cursor> start() const { return start_; }
  bool begun() const;
  /// Tells the newest event at the moment of subscribing, and which ids up to it no visible event had but one may yet come
  /// to have. Who came without a cursor begins below these, and of what is up to the newest only they are delivered. Only
  /// the first call counts.
  void begin(std::int64_t newest, const std::vector<IdRange>& absent = {});
  /// In its place: the cursor is none of this database.
  void refuse(std::string reason);
  /// What to read next when the outbox is settled up to this id; nothing when all of that has been read, or
  /// the consumer has to take something first.
  std::optional<Stretch> stretch(std::int64_t settled);
  /// The first kMostRows rows of the stretch that was asked for. True: there may be more.
  bool add(const std::vector<OutboxRow>& rows, std::int64_t settled);
  /// The reader could not go on, and tries again: whoever waits for the beginning gets the reason, whoever reads is told
  /// once.
  void fail(std::exception_ptr reason);

  // The consumer's side.

  /// Waits for begin(), and throws what fail() was told instead.
  void wait_until_begun();
  std::optional<Delivery> next(SteadyTime deadline);
  Cursor cursor() const;
  bool closed() const;

  /// Nothing is delivered any more.
  void close();

 private:
  bool was_there(std::int64_t event_id) const;
  void pass_goal();
  void put(Delivery delivery);

  const std::optional<PartitionKey> partition_;
  const std::optional<Cursor> start_;
  const ScannerFilter filter_;
  pg::Wake& reader_;
  HistoryObserver& observer_;

  // The reader's own: the newest event at the beginning of who came without a cursor, and the ids that may still come.
  std::int64_t present_ = 0;
  std::vector<IdRange> absent_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Delivery> waiting_;
  std::size_t events_waiting_ = 0;
  std::optional<std::int64_t>
      position_;                      // of the last event that was read, or the start; nothing: not known yet
  std::int64_t read_to_ = 0;          // everything up to here has been read; at least position_
  std::int64_t taken_ = 0;            // of the last event that the consumer took, or the start
  std::optional<std::int64_t> goal_;  // of what was there at the beginning the last, until it has been passed
  bool begun_ = false;
  bool failed_ = false;  // since the last row was read, or none was there to read
  bool refused_ = false;
  bool reader_waits_ = false;
  bool closed_ = false;
  std::exception_ptr failure_;
};

}  // namespace ff::lease
