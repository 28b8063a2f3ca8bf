#include "descriptors.hpp"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "configuration.hpp"
#include "http_server.hpp"

namespace ff::daemon {
namespace {

// The log, what wakes threads, what is listened on, files that are read: about twenty, and some to spare.
constexpr rlim_t kBesideSockets = 32;

rlim_t most_descriptors(const config::Config& config) {
  return static_cast<rlim_t>(config.database.pool_size + kBesidePool) + HttpLimits{}.connections +
         kBesideSockets;
}

}  // namespace

void raise_descriptor_limit(const config::Config& config) {
  const rlim_t most = most_descriptors(config);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  if (limit.rlim_cur < std::min(most, limit.rlim_max)) {
    const rlimit raised{std::min(most, limit.rlim_max), limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0)
      limit = raised;
    else
      spdlog::warn("the limit of file descriptors stays {}: {}", limit.rlim_cur,
                   std::generic_category().message(errno));
  }
  if (limit.rlim_cur < most)
    spdlog::warn(
        "{} file descriptors are allowed and up to {} may be needed: without one for a session the database "
        "is taken to be away; set LimitNOFILE= in the unit, or ulimit -n",
        limit.rlim_cur, most);
}

}  // namespace ff::daemon
