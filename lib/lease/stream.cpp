#include "lease/stream.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ff::lease {

Stream::Stream(std::optional<PartitionKey> partition, std::optional<Cursor> start, ScannerFilter filter,
               pg::Wake& reader, HistoryObserver& observer)
    : partition_(partition), start_(start), filter_(std::move(filter)), reader_(reader), observer_(observer) {
  if (!start) return;
  position_ = start->event_id;
  read_to_ = taken_ = start->event_id;
}

bool Stream::begun() const {
  const std::lock_guard lock(mutex_);
  return begun_;
}

void Stream::begin(std::int64_t newest, const std::vector<IdRange>& absent) {
  const std::lock_guard lock(mutex_);
  if (begun_) return;
  begun_ = true;
  goal_ = newest;
  if (!position_) {
    present_ = newest;
    absent_ = absent;
    const std::int64_t below = absent.empty() ? newest : absent.front().first - 1;
    position_ = goal_ = below;
    read_to_ = taken_ = below;
  }
  changed_.notify_all();
}

void Stream::refuse(std::string reason) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(begun_, true)) return;
  refused_ = true;
  put(CursorRefused{std::move(reason)});
}

bool Stream::was_there(std::int64_t event_id) const {
  if (event_id > present_) return false;
  const auto behind = std::ranges::upper_bound(absent_, event_id, {}, &IdRange::first);
  return behind == absent_.begin() || std::prev(behind)->last < event_id;
}

std::optional<Stretch> Stream::stretch(std::int64_t settled) {
  const std::lock_guard lock(mutex_);
  if (closed_ || !begun_ || refused_) return std::nullopt;
  pass_goal();
  if (read_to_ >= settled) {
    failed_ = false;
    return std::nullopt;
  }
  reader_waits_ = events_waiting_ + kMostRows > kMostWaiting;
  if (reader_waits_) return std::nullopt;
  return Stretch{partition_, read_to_};
}

bool Stream::add(const std::vector<OutboxRow>& rows, std::int64_t settled) {
  // Typed before the lock is taken, so that the consumer can go on with what it has.
  std::vector<Event> events;
  events.reserve(rows.size());
  for (const OutboxRow& row : rows) {
    if (was_there(row.event_id) || !matches(filter_, row)) continue;
    if (auto event = event_of(row)) events.push_back(std::move(*event));
  }
  const std::lock_guard lock(mutex_);
  failed_ = false;
  if (!rows.empty()) position_ = rows.back().event_id;
  const bool more = rows.size() == kMostRows;
  read_to_ = more ? *position_ : settled;
  events_waiting_ += events.size();
  for (Event& event : events) waiting_.emplace_back(std::move(event));
  changed_.notify_all();
  pass_goal();
  if (read_to_ >= present_) absent_ = {};
  return more;
}

void Stream::fail(std::exception_ptr reason) {
  const std::lock_guard lock(mutex_);
  if (!begun_) {
    failure_ = std::move(reason);
    changed_.notify_all();
    return;
  }
  if (closed_ || refused_ || std::exchange(failed_, true)) return;
  // A consumer that does not come to look learns of it once, however often it happens.
  if (!waiting_.empty() && std::holds_alternative<StreamDisconnected>(waiting_.back())) return;
  put(StreamDisconnected{{*position_}, std::move(reason)});
}

void Stream::pass_goal() {
  if (!goal_ || read_to_ < *goal_) return;
  goal_.reset();
  put(CaughtUp{{*position_}});
}

void Stream::put(Delivery delivery) {
  waiting_.push_back(std::move(delivery));
  changed_.notify_all();
}

void Stream::wait_until_begun() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return begun_ || failure_ || closed_; });
  if (!begun_ && failure_) std::rethrow_exception(failure_);
}

std::optional<Delivery> Stream::next(SteadyTime deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [&] { return closed_ || !waiting_.empty(); });
  if (closed_ || waiting_.empty()) return std::nullopt;
  Delivery delivery = std::move(waiting_.front());
  waiting_.pop_front();
  if (const auto* event = std::get_if<Event>(&delivery)) {
    taken_ = occurrence(*event).cursor.event_id;
    --events_waiting_;
    observer_.lease_event_delivered();
    if (reader_waits_ && events_waiting_ + kMostRows <= kMostWaiting) {
      reader_waits_ = false;
      reader_.raise();
    }
  }
  return delivery;
}

Cursor Stream::cursor() const {
  const std::lock_guard lock(mutex_);
  // Rows that the filter refused move it on, but not past an event that still waits.
  return {events_waiting_ == 0 ? position_.value_or(0) : taken_};
}

bool Stream::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void Stream::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace ff::lease
