#pragma once

#include <string>
#include <string_view>

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

/// To a database that cannot be reached.
inline std::string way_to_reach(const pg::Error& error) {
  const std::string_view message = error.what();
  if (error.too_many_connections())
    return "end sessions that nobody needs, lower database.pool_size of the daemons, or raise "
           "max_connections";
  if (message.find("password file") != std::string_view::npos)
    return "see that the file is there, has the password in its first line, and may be read by this account";
  if (std::string way = way_to_certificate(message); !way.empty()) return way;
  return "see that the server runs, and that host, port, role, password and pg_hba.conf are right";
}

}  // namespace ff::check
