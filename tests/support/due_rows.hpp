#pragma once

#include "pg/connection.hpp"

namespace ff::test {

/// How many rows insert_due_rows makes.
struct DueRows {
  int partitions = 16;      ///< 0 and on
  int per_partition = 500;  ///< of each kind
  int one_due_in = 8;
  int crowded = 3;  ///< in this partition all rows but one in `one_due_in` are due
};

/// For each reconciler rows of all the kinds that it treats differently, some due since a minute or more and
/// the others not for a day, in each partition; and analyses the tables. To be called once per database.
void insert_due_rows(pg::Connection& connection, const DueRows& wanted = {});

}  // namespace ff::test
