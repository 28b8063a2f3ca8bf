#pragma once

#include <functional>
#include <map>
#include <string>

#include "http_server.hpp"

namespace ff::daemon {

/// The last reply of each route that wants it kept for a while (HttpReply::kept_for). Not thread-safe.
class KeptReplies {
 public:
  /// The clock must outlive this.
  explicit KeptReplies(const Clock& clock) : clock_(clock) {}

  /// What is true now, or was a moment ago: a flood of requests then costs one reply a while, over however many
  /// connections it comes. Throws as the route does.
  HttpReply of(const Routes::value_type& route);

 private:
  struct Kept {
    HttpReply reply;
    SteadyTime made_at;
  };
  const Clock& clock_;
  std::map<std::string, Kept, std::less<>> kept_;
};

}  // namespace ff::daemon
