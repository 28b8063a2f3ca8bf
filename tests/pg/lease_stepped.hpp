#pragma once

#include "pg/lease_outbox.hpp"

namespace ff::test {

/// The reader, stepped by hand, with one stream over all partitions; without a start it begins with the present moment.
struct Stepped {
  explicit Stepped(Database& database, lease::HistoryObserver& observer, const Clock& clock = Clock::system(),
                   std::optional<std::int64_t> start = 0)
      : Stepped(database.connect(), observer, clock, start) {}
  Stepped(pg::Connection connection, lease::HistoryObserver& observer, const Clock& clock = Clock::system(),
          std::optional<std::int64_t> start = 0)
      : session(std::move(connection)),
        stream(std::make_shared<lease::Stream>(std::nullopt,
                                               start ? std::optional(lease::Cursor{*start}) : std::nullopt,
                                               ScannerFilter{}, wake, observer)),
        reader(Milliseconds{10'000}, observer, clock) {}

  void pass(lease::Streams others = {}) {
    others.push_back(stream);
    reader.pass(session, others);
    while (const auto delivery = stream->next(SteadyTime::min()))
      if (const auto* event = std::get_if<lease::Event>(&*delivery))
        delivered.push_back(occurrence(*event).cursor.event_id);
  }

  pg::Connection session;
  pg::Wake wake;
  std::shared_ptr<lease::Stream> stream;
  lease::HistoryReader reader;
  std::vector<std::int64_t> delivered;
};

}  // namespace ff::test
