#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "pg/connect.hpp"
#include "pg/listener.hpp"

namespace ff::supervisor {

/// What other sessions announce by notification: while none comes on a channel, nothing of what is announced there
/// has changed. It listens from a thread of its own, over a connection of its own, and connects again when that
/// breaks. Before it believes in silence it sends itself a notification over another connection and waits for
/// it: behind a pooler in transaction mode none arrives.
///
/// Any notification can be lost all the same (a trigger that was dropped, a connection that hangs): whoever
/// relies on silence still has to scan now and then, or to be backed by somebody who does. All members are safe from any thread, but start() and
/// stop() are called once each.
class Notifications {
 public:
  /// Told of each channel that is heard, from the thread that listens. It does not throw.
  using OnHeard = std::function<void(std::string_view channel)>;

  /// The connector must outlive this. Channels are named as for pg::Listener.
  Notifications(const pg::Connector& connector, std::vector<std::string> channels, OnHeard on_heard = {});
  ~Notifications();

  void start();
  void stop();

  /// The server may be another one by now: believe nothing until a new connection listens.
  void renew();

  /// Which server announces what matters, by its start: whoever listens to another listens anew.
  void server_is(UnixMillis started_at);

  /// It has listened ever since, and nothing came on this channel.
  bool none_since(std::string_view channel, SteadyTime since) const;

 private:
  void run();
  void begin_anew();
  void listen();
  void hear(pg::Listener& listener, int wanted);
  void refuse_other_server(const pg::Connection& connection) const;
  bool is_meant(const pg::Connection& connection) const;  // under mutex_
  bool pause(Milliseconds length);
  int renewals() const;
  bool still_wanted(int renewals) const;
  void deaf(const std::string& why);

  const pg::Connector& connector_;
  const std::vector<std::string> channels_;
  const OnHeard on_heard_;
  pg::Interrupt interrupt_;  // raised to end the thread
  pg::Wake renewal_;
  std::string why_deaf_;  // as logged; the thread's own, as is the next
  int failures_ = 0;      // since notifications were heard

  mutable std::mutex mutex_;
  int renewals_ = 0;                           // guarded by mutex_
  std::optional<SteadyTime> listening_since_;  // guarded by mutex_
  std::optional<UnixMillis> listening_to_;     // guarded by mutex_: a server, while it listens
  std::optional<UnixMillis> server_;           // guarded by mutex_: the one that is meant
  std::map<std::string, SteadyTime, std::less<>> last_heard_;  // guarded by mutex_
  std::jthread thread_;
};

}  // namespace ff::supervisor
