#include "release_watch.hpp"

#include <spdlog/spdlog.h>

#include <exception>
#include <utility>

namespace ff::daemon {

void ReleaseWatch::poll(pg::Connection& connection) {
  std::string why;
  try {
    pause::Releases found = pause::try_to_read_releases(connection);
    why = found.why_unreadable;
    if (found.table == pause::Reading::Table::readable) releases_.learn(std::move(found.all));
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (!why.empty() && why != why_unread_) spdlog::warn("releases cannot be read: {}", why);
  if (why.empty() && !why_unread_.empty()) spdlog::info("releases are read again");
  why_unread_ = why;
}

}  // namespace ff::daemon
