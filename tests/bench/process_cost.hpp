#pragma once

#include <sys/types.h>

#include "testserver/private_server.hpp"

namespace ff::bench {

/// User and system time of all threads of a process so far, in seconds and to the nanosecond. Throws
/// std::runtime_error when there is no such process.
double cpu_seconds_of(pid_t pid);
/// The most of it that ever was in memory.
double most_resident_mib_of(pid_t pid);

/// The time of all processes of the server so far: of those that run, and, to the hundredth of a second, of
/// those that have ended. The server must be running.
double cpu_seconds_of_server(testserver::PrivateServer& server);

/// Of the calling thread.
double cpu_seconds_of_this_thread();

}  // namespace ff::bench
