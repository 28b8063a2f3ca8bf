#include "testserver/server_programs.hpp"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

namespace ff::testserver {
namespace {

namespace fs = std::filesystem;

// Set by `./dev … --postgres N`.
constexpr const char* kWantedPrograms = "FF_POSTGRES_PROGRAMS";

// Debian keeps the server programs of every major version here, outside the PATH.
constexpr const char* kDebianVersions = "/usr/lib/postgresql";

bool has_both(const fs::path& directory) {
  return ::access((directory / "initdb").c_str(), X_OK) == 0 &&
         ::access((directory / "postgres").c_str(), X_OK) == 0;
}

// Empty when there is no pg_config, which comes with the packages for developers.
fs::path pg_config_bindir() {
  const std::unique_ptr<FILE, int (*)(FILE*)> output(::popen("pg_config --bindir 2>/dev/null", "re"),
                                                     &::pclose);
  if (!output) return {};
  std::string line;
  std::array<char, 512> piece{};
  while (std::fgets(piece.data(), static_cast<int>(piece.size()), output.get()) != nullptr)
    line += piece.data();
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

int version_of(const fs::path& directory) {
  const std::string name = directory.filename();
  int version = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), version);
  return error == std::errc{} && end == name.data() + name.size() ? version : 0;
}

fs::path newest_debian_version() {
  fs::path newest;
  std::error_code none;  // of a missing directory
  for (const auto& entry : fs::directory_iterator(kDebianVersions, none)) {
    if (has_both(entry.path() / "bin") && (newest.empty() || version_of(entry.path()) > version_of(newest)))
      newest = entry.path();
  }
  return newest.empty() ? newest : newest / "bin";
}

}  // namespace

fs::path find_server_programs() {
  if (const char* wanted = std::getenv(kWantedPrograms); wanted != nullptr && *wanted != '\0') {
    if (has_both(wanted)) return wanted;
    throw std::runtime_error(std::string(kWantedPrograms) + " is " + wanted +
                             ", where PostgreSQL's initdb and postgres are not");
  }
  fs::path configured = pg_config_bindir();
  if (!configured.empty() && has_both(configured)) return configured;
  fs::path newest = newest_debian_version();
  if (!newest.empty()) return newest;
  throw std::runtime_error("PostgreSQL's initdb and postgres were found neither by pg_config --bindir (" +
                           (configured.empty() ? std::string("there is no pg_config") : configured.string()) +
                           ") nor in " + kDebianVersions +
                           "/*/bin: install a PostgreSQL server (Debian: postgresql-15)");
}

std::optional<Account> server_account() {
  if (::geteuid() != 0) return std::nullopt;
  for (const char* name : {"postgres", "nobody"}) {
    std::array<char, 4096> texts{};
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwnam_r(name, &entry, texts.data(), texts.size(), &found) == 0 && found != nullptr)
      return Account{name, entry.pw_uid, entry.pw_gid};
  }
  throw std::runtime_error("PostgreSQL refuses to run as root, and there is no user postgres or nobody");
}

std::vector<std::string> server_environment() {
  std::vector<std::string> kept{"LC_ALL=C"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (!text.starts_with("PG") && !text.starts_with("LC_") && !text.starts_with("LANG"))
      kept.emplace_back(text);
  }
  return kept;
}

}  // namespace ff::testserver
