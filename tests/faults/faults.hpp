#pragma once

#include "faults/fault.hpp"

namespace ff::faults {

// Of the daemons.
Fault kills();
Fault frozen_replica();
Fault clocks_off();

// Of their connections.
Fault terminated_sessions();
Fault connection_limit();
Fault password_rotated();

// Of the network.
Fault silence_to_server();
Fault silence_to_daemons();
Fault silence_both_ways();
Fault slow_network();

// Of the server.
Fault immediate_restart();
Fault killed_session();
Fault standstill();
Fault clock_set();

// Of tables.
Fault locked_table();
Fault changed_tables();
Fault held_snapshot();
Fault full_disk();

// Of a cluster.
Fault switchover();
Fault killed_primary();
Fault frozen_primary();

}  // namespace ff::faults
