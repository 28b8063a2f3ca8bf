#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "testserver/private_server.hpp"

namespace ff::bench {

/// User and system time of all threads of a process so far, in seconds and to the nanosecond. Throws
/// std::runtime_error when there is no such process.
double cpu_seconds_of(pid_t pid);
/// How much of it is in memory: "VmRSS" now, "VmHWM" at most so far.
double mib_of(pid_t pid, const std::string& what);

/// The time of all processes of the server so far: of those that run, and, to the hundredth of a second, of
/// those that have ended. The server must be running.
double cpu_seconds_of_server(testserver::PrivateServer& server);

/// Of the calling thread.
double cpu_seconds_of_this_thread();

/// By how much this process is larger at its largest, while `work` runs, than before. What is free beforehand is given
/// back: it would hide growth.
double mib_grown_by(const std::function<void()>& work);

}  // namespace ff::bench
