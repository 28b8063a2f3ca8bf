#include "demo/simulation/outage.hpp"

namespace ff::simulation {

bool is_an_outage(const pg::Error& error) {
  const bool lacks_resources = error.error_class() == "53" || error.error_class() == "58";
  return error.connection_lost() || error.not_writable() || error.timed_out() || lacks_resources;
}

}  // namespace ff::simulation
