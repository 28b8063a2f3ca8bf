#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/engine.hpp"
#include "support/flowfabric.hpp"

/// What the tests of this directory say again and again: executions of the real FlowFabric, ticks of our
/// reconcilers, and the real claims that judge what they left.
namespace ff::test {

/// Over FlowFabric's own database. Executions are named as FlowFabric writes them, {fp:0}:<uuid>.
class World {
 public:
  World() : connection(database_.connect()), real(database_.flowfabric()) {}

  const pg::Connector& connector() const { return database_.connector(); }
  std::string url() const { return database_.url(); }
  std::string conninfo() const { return database_.conninfo(); }

  /// A runnable execution in partition 0, unless `more` says otherwise. It can be claimed in every way.
  std::string execution(const Json& more = {}) {
    Json arguments{{"partition", 0}, {"runnable", "pending_first_attempt"}};
    arguments.update(more.is_null() ? Json::object() : more);
    return real.call("create_execution", arguments).at("execution");
  }

  /// Takes it by one of the three claims that need no suspension, and keeps the handle as `as`. Each execution
  /// has the default lane to itself, for `claim` takes whichever it finds first.
  Json take(std::string_view way, const std::string& execution, const std::string& as = "h",
            std::int64_t ttl_ms = 60'000, const Json& more = {}) {
    Json arguments{{"execution", execution}, {"as", as}, {"ttl_ms", ttl_ms}};
    arguments.update(more.is_null() ? Json::object() : more);
    if (way == "claim_execution") real.call("write_grant", {{"execution", execution}});
    if (way == "claim") arguments.erase("execution");
    const Json lease = real.call(way, arguments);
    if (lease.is_null() || lease.at("execution") != execution)
      throw std::runtime_error(std::string(way) + " finds nothing");
    return lease;
  }

  /// "" when it was taken, completed, and so ended; else what FlowFabric said.
  std::string taken_by(std::string_view way, const std::string& execution) {
    try {
      take(way, execution, "judge");
      real.call("complete", {{"handle", "judge"}});
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }

  /// The outcomes of one tick of ours over the partitions 0 to 15, such as "retried=1".
  std::string tick(std::string_view reconciler, const EngineOptions& options = {}) {
    pass();
    EngineFixture engine(connector(), reconciler, options);
    return outcomes(engine->tick());
  }

  /// Lets what was made to last a millisecond be over.
  void pass(std::int64_t ms = 5) {
    connection.execute("SELECT pg_sleep($1::bigint / 1000.0)", pg::Params::of(ms));
  }

  Json core(const std::string& execution) {
    return row("SELECT to_jsonb(t)::text FROM ff_exec_core t WHERE execution_id = $1::uuid", execution);
  }
  /// The phase, ownership, eligibility, public and attempt states in one text.
  std::string states(const std::string& execution) {
    const Json found = core(execution);
    std::string text;
    for (const char* column :
         {"lifecycle_phase", "ownership_state", "eligibility_state", "public_state", "attempt_state"})
      text += (text.empty() ? "" : " ") + found.at(column).get<std::string>();
    return text;
  }
  Json attempt(const std::string& execution, int index = 0) {
    return row(
        "SELECT to_jsonb(t)::text FROM ff_attempt t WHERE execution_id = $1::uuid AND attempt_index = " +
            std::to_string(index),
        execution);
  }
  Json suspension(const std::string& execution) {
    return row("SELECT to_jsonb(t)::text FROM ff_suspension_current t WHERE execution_id = $1::uuid",
               execution);
  }
  std::int64_t waitpoints(const std::string& execution) { return count("ff_waitpoint_pending", execution); }
  /// How many events of this kind the execution has.
  std::int64_t lease_events_of(const std::string& execution, const std::string& type) {
    return number(connection,
                  "SELECT count(*) FROM ff_lease_event WHERE execution_id = $1 AND event_type = $2",
                  pg::Params::of(uuid(execution), type));
  }
  std::int64_t ends_of(const std::string& execution, const std::string& outcome) {
    return number(connection,
                  "SELECT count(*) FROM ff_completion_event WHERE execution_id = $1::uuid AND outcome = $2",
                  pg::Params::of(uuid(execution), outcome));
  }

  static std::string uuid(const std::string& execution) { return execution.substr(execution.find("}:") + 2); }

 private:
  Json row(const std::string& query, const std::string& execution) {
    const pg::Result found = connection.execute(query, pg::Params::of(uuid(execution)));
    return found.size() == 0 ? Json() : Json::parse(found.one().get<std::string>(0));
  }
  std::int64_t count(const std::string& table, const std::string& execution) {
    return number(connection, "SELECT count(*) FROM " + table + " WHERE execution_id = $1::uuid",
                  pg::Params::of(uuid(execution)));
  }

  FlowFabricDatabase database_;

 public:
  pg::Connection connection;
  FlowFabric& real;
};

/// The claims that take whatever waits for a worker.
inline const std::vector<std::string>& three_claims() {
  static const std::vector<std::string> all{"claim", "claim_execution", "issue_grant_and_claim"};
  return all;
}

}  // namespace ff::test
