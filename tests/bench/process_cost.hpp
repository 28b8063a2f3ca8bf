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

/// What reading took.
struct Effort {
  double seconds = 0;
  double resident_mib = 0;  ///< by how much the process grew at its largest
};

/// Runs `work` in a copy of this process, so that its memory is nobody else's, and returns what it returned.
/// What `work` throws is thrown here as std::runtime_error. To be called while no other thread of this
/// process is doing anything: it would be missing in the copy, with whatever it held.
Effort in_own_process(const std::function<Effort()>& work);

}  // namespace ff::bench
