#pragma once

#include <filesystem>

namespace ff::testserver {

/// The directory with PostgreSQL's `initdb` and `postgres`: the one that FF_POSTGRES_PROGRAMS names, else what
/// `pg_config --bindir` says if both are there, else the newest /usr/lib/postgresql/*/bin that has both. Throws
/// std::runtime_error that says where it looked and which package to install.
std::filesystem::path find_server_programs();

}  // namespace ff::testserver
