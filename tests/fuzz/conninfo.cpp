// A connection string, and that nobody learns its password. What may be shown of two strings that differ in nothing but
// the password has to be the same: so each of some letters is replaced by another, and where that changes a password and
// nothing else, the two are compared. That needs no guess at what the password is.
#include <cstdlib>
#include <functional>
#include <optional>

#include "config/secrets.hpp"
#include "pg/connect.hpp"
#include "promise.hpp"

namespace {

using namespace ff;

constexpr std::size_t kMostCompared = 24;

std::optional<pg::Conninfo> parsed(const std::string& text) {
  try {
    return pg::parse_conninfo(text);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

/// Whether two strings mean the same, but for a password.
bool differ_in_secret(pg::Keywords one, pg::Keywords other) {
  if (one == other) return false;
  for (const char* secret : {"password", "sslpassword"}) {
    one.erase(secret);
    other.erase(secret);
  }
  return one == other;
}

std::string described(const std::string& text) {
  return pg::Connector({.conninfo = text}).description();
}

// A letter stays a letter, so that the string keeps its form.
char another(char c) {
  if (c >= '0' && c <= '9') return c == '7' ? '8' : '7';
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return c == 'x' ? 'y' : 'x';
  return c;
}

void compare(const std::string& text, const pg::Conninfo& conninfo, std::size_t at) {
  std::string other = text;
  other[at] = another(text[at]);
  if (other == text) return;
  const auto its = parsed(other);
  if (!its || !differ_in_secret(conninfo.given, its->given)) return;
  fuzz::promise(config::hide_secrets(text) == config::hide_secrets(other), "a password is hidden",
                text + '\n' + config::hide_secrets(text));
  fuzz::promise(described(text) == described(other), "a description has no password", text);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // libpq would look for services and passwords there.
  for (const char* place : {"HOME", "PGSYSCONFDIR", "PGSERVICEFILE", "PGPASSFILE"})
    ::setenv(place, "/nonexistent", 1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  const std::string hidden = config::hide_secrets(text);
  // libpq would open a file of that name.
  if (text.find('\0') != std::string::npos || text.find("passfile") != std::string::npos) return 0;
  const auto conninfo = parsed(text);
  if (!conninfo) return 0;
  pg::servers_of(*conninfo);
  fuzz::promise(config::hide_secrets(hidden) == hidden, "what is shown is shown again", text + '\n' + hidden);
  if (!conninfo->given.contains("password") && !conninfo->given.contains("sslpassword")) return 0;
  const std::size_t begin = std::hash<std::string>{}(text) % size;
  for (std::size_t i = 0; i < std::min(size, kMostCompared); ++i)
    compare(text, *conninfo, (begin + i) % size);
  return 0;
}
