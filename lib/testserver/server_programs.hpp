#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "testserver/child_process.hpp"

namespace ff::testserver {

/// The directory with PostgreSQL's `initdb` and `postgres`: the one that FF_POSTGRES_PROGRAMS names, else what
/// `pg_config --bindir` says if both are there, else the newest /usr/lib/postgresql/*/bin that has both. Throws
/// std::runtime_error that says where it looked and which package to install.
std::filesystem::path find_server_programs();

/// Whom they run as: nothing where we may run them ourselves. They refuse root, for whom it is `postgres`, or else
/// `nobody`; throws std::runtime_error when there is neither.
std::optional<Account> server_account();

/// Our own environment, without what would redirect them or change the language of their messages.
std::vector<std::string> server_environment();

}  // namespace ff::testserver
