#include "kept_replies.hpp"

namespace ff::daemon {

HttpReply KeptReplies::of(const Routes::value_type& route) {
  const auto its = kept_.find(route.first);
  if (its != kept_.end() && clock_.now() - its->second.made_at < its->second.reply.kept_for)
    return its->second.reply;
  HttpReply reply = route.second();
  if (reply.kept_for > Milliseconds{0}) kept_.insert_or_assign(route.first, Kept{reply, clock_.now()});
  return reply;
}

}  // namespace ff::daemon
