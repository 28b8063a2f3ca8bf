#pragma once

#include <string>

/// Lines to paste that several checks and commands have to give.
namespace ff::check {

inline std::string migrate_up() {
  return "ff-reconcilerd migrate up --database-url postgresql://OWNER@HOST/DATABASE";
}

inline std::string migrate_up_as_owner() {
  return migrate_up() + " # as the owner of the tables";
}

}  // namespace ff::check
