#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/printable.hpp"
#include "pg/error.hpp"

/// Lines to paste that several checks and commands have to give.
namespace ff::check {

inline std::string migrate_up() {
  return "ff-reconcilerd migrate up --database-url postgresql://OWNER@HOST/DATABASE";
}

inline std::string migrate_up_as_owner() {
  return migrate_up() + " # as the owner of the tables";
}

/// Of what the role may not do: the server has one SQLSTATE for a privilege that is missing and for rows that are hidden from it,
/// of which only its words tell (those in English).
inline std::string way_to_permission(const pg::Error& error) {
  if (std::string_view(error.what()).find("row-level security") != std::string_view::npos)
    return "no GRANT helps: ff-reconcilerd check-db names the tables with row-level security";
  return "as the owner of the tables: ff-reconcilerd migrate grants --role NAME";
}

/// Of a certificate or a key, of which the message of libpq says whose: what it cannot read, or what the server refuses by an
/// alert, is ours. Nothing: it is about none.
inline std::string way_to_certificate(std::string_view message) {
  const auto has = [&](std::string_view words) { return message.find(words) != std::string_view::npos; };
  if (!has("SSL error") && !has("certificate") && !has("private key file")) return {};
  const std::string look = "openssl x509 -noout -dates -subject -in FILE";
  const bool is_ours = has("alert") || has("client certificate") || has("certificate authentication") ||
                       has("private key file") || (has("certificate file") && !has("root certificate file"));
  if (is_ours)
    return "see that sslcert is in date and of this role, that sslkey belongs to it and is for this account "
           "alone "
           "to read, and that the server's ssl_ca_file knows who signed it (an alert is the server's "
           "verdict): " +
           look;
  return "see that sslrootcert has who signed the server's certificate, and that this is in date and for the "
         "host of the "
         "URL: " +
         look;
}

/// The role or the database that a message names behind `words`, as SQL has it; a word to replace where it cannot be shown.
inline std::string named_behind(std::string_view words, std::string_view message) {
  std::string_view name = message.substr(message.find(words) + words.size());
  // What other hosts say may follow. A quote within a name is not doubled in a message.
  name = name.substr(0, std::min(name.find("\"; "), name.rfind('"')));
  if (name.empty() || printable(name) != name) return "NAME";
  std::string quoted = "\"";
  for (const char c : name) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

/// To a session, where the role, the database or the server has as many as it may have. One SQLSTATE is for all three: only the
/// server's words tell them apart (those in English). `sessions`: what a daemon takes; what the others take cannot be asked.
inline std::string way_to_session(std::string_view message, int sessions) {
  constexpr std::string_view kOfRole = "too many connections for role \"";
  constexpr std::string_view kOfDatabase = "too many connections for database \"";
  const std::string enough =
      " -- N: more than now, and " + std::to_string(sessions) + " for each daemon at least; ";
  const auto role = message.find(kOfRole);
  const auto database = message.find(kOfDatabase);
  if (role < database)
    return "ALTER ROLE " + named_behind(kOfRole, message) + " CONNECTION LIMIT N;" + enough +
           "or end sessions of this role that nobody needs";
  if (database < role)
    return "ALTER DATABASE " + named_behind(kOfDatabase, message) + " CONNECTION LIMIT N;" + enough +
           "or end sessions of this database that nobody needs";
  return "end sessions that nobody needs, lower database.pool_size of the daemons, or ALTER SYSTEM SET "
         "max_connections = N;" +
         enough + "and restart the server";
}

/// To a database that cannot be reached. `sessions`: what a daemon takes.
inline std::string way_to_reach(const pg::Error& error, int sessions) {
  const std::string_view message = error.what();
  if (error.too_many_connections()) return way_to_session(message, sessions);
  if (message.find("it needs pool_mode =") != std::string_view::npos)
    return "set pool_mode = transaction (or session) for this database in the pooler's configuration, "
           "or name the server itself in database.url";
  if (message.find("password file") != std::string_view::npos)
    return "see that the file is there, has the password in its first line, and may be read by this account";
  if (std::string way = way_to_certificate(message); !way.empty()) return way;
  return "see that the server runs, and that host, port, role, password and pg_hba.conf are right";
}

}  // namespace ff::check
