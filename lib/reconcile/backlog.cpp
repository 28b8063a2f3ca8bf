#include "reconcile/backlog.hpp"

namespace ff::reconcile {

void keep_earlier(std::optional<UnixMillis>& to, const std::optional<UnixMillis>& from) {
  if (from && (!to || *from < *to)) to = from;
}

void Backlog::add(const Backlog& its) {
  due += its.due;
  capped = capped || its.capped;
  keep_earlier(oldest_due, its.oldest_due);
  keep_earlier(next_due, its.next_due);
  if (!known_until || !its.known_until)
    known_until.reset();
  else
    keep_earlier(known_until, its.known_until);
}

}  // namespace ff::reconcile
