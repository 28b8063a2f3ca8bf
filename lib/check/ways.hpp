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

}  // namespace ff::check
