#pragma once

#include <string>

namespace ff {

/// The whole of a file that somebody wrote for us: a configuration, a password. At most 1 MiB of it is ever read,
/// and what is no file (a pipe, a device) has five seconds to come to its end. Throws std::runtime_error, which
/// says what is wrong and leaves the path to the caller.
std::string read_small_file(const std::string& path);

/// Why this process could not read a file there now, in the system's words; empty: it could. Nothing is opened, so that
/// nobody who writes into a pipe is disturbed.
std::string why_unreadable(const std::string& path);

/// There is something else than a file or a directory, such as a pipe or a device: who reads it may read for ever.
bool is_special_file(const std::string& path);

/// Everybody on this machine may read it. False where there is no such file.
bool is_readable_by_others(const std::string& path);

}  // namespace ff
