#include "demo/simulation/outage.hpp"

namespace ff::simulation {

bool is_an_outage(const pg::Error& error) {
  return error.connection_lost() || error.not_writable() || error.timed_out() || error.lacks_resources() ||
         error.error_class() == "58";
}

}  // namespace ff::simulation
