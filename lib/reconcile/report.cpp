#include "reconcile/report.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "reconcile/backlog.hpp"

namespace ff::reconcile {
namespace {

template <typename Counts>
void add_counts(Counts& to, const Counts& from) {
  for (const auto& [what, count] : from) to[what] += count;
}

template <typename Values>
void append(Values& to, Values&& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

void TickReport::add(TickReport&& other) {
  scanned += other.scanned;
  watched += other.watched;
  processed += other.processed;
  given_back += other.given_back;
  add_counts(skipped, other.skipped);
  add_counts(outcomes, other.outcomes);
  add_counts(errors, other.errors);
  if (other.more) wait = more ? std::min(wait, other.wait) : other.wait;
  more = more || other.more;
  keep_earlier(oldest_due, other.oldest_due);
  for (const auto& [partition, due_at] : other.oldest_due_in) {
    const auto [there, is_new] = oldest_due_in.emplace(partition, due_at);
    if (!is_new) there->second = std::min(there->second, due_at);
  }
  keep_earlier(next_due, other.next_due);
  lateness.add(other.lateness);
  append(moves, std::move(other.moves));
  append(faults, std::move(other.faults));
  if (!failure) failure = std::move(other.failure);
}

void TickReport::add_companion(TickReport&& companions) {
  quarantined += companions.quarantined;
  append(quarantine_rows, std::move(companions.quarantine_rows));
  append(held, std::move(companions.held));
  companions_rested = companions_rested || companions.rested;
  add(std::move(companions));
}

void TickReport::finish() {
  if (failure) ++errors[std::string(failure->error_class())];
  std::ranges::sort(moves, [](const Move& a, const Move& b) {
    return std::tie(a.due_at, a.key) < std::tie(b.due_at, b.key);
  });
}

}  // namespace ff::reconcile
