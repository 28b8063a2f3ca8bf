#pragma once

#include "world.hpp"

namespace ff::test {

/// A flow with a downstream in a lane of its own and upstreams in theirs, so that `claim` finds the one that is
/// meant.
class Flow {
 public:
  explicit Flow(World& world, const Json& policy = {{"policy", "all_of"}}, int upstreams = 2,
                const Json& more = {})
      : world_(world), id(world.real.call("create_flow", {{"partition", 2}}).at("flow")) {
    downstream = member("downstream", more);
    Json arguments = policy;
    arguments.update({{"flow", id}, {"downstream", downstream}});
    if (policy.at("policy") != "all_of") world.real.call("set_edge_policy", arguments);
    for (int i = 0; i < upstreams; ++i) {
      upstream.push_back(member("u" + std::to_string(i), more));
      edge(i);
    }
  }

  void edge(int from) {
    world_.real.call("stage_edge", {{"flow", id},
                                    {"upstream", upstream[static_cast<std::size_t>(from)]},
                                    {"downstream", downstream},
                                    {"apply", true}});
  }

  /// An upstream's whole life, of which nobody has told the downstream.
  void succeeds(int which) {
    claim("u" + std::to_string(which), "u");
    world_.real.call("complete", {{"handle", "u"}});
  }
  void fails(int which) {
    claim("u" + std::to_string(which), "u");
    world_.real.call("fail", {{"handle", "u"}, {"class", "permanent"}});
  }
  /// The same, and its event is passed on by us.
  std::string complete(int which) {
    succeeds(which);
    return world_.tick("dependency", at_once());
  }
  std::string fail(int which) {
    fails(which);
    return world_.tick("dependency", at_once());
  }
  void claim(const std::string& lane, const std::string& as) {
    const Json lease = world_.real.call("claim", {{"lane", lane}, {"as", as}});
    REQUIRE_FALSE(lease.is_null());
  }
  /// Events are passed on as soon as they are there.
  static EngineOptions at_once() {
    EngineOptions options;
    options.settings = {{"stale_threshold", 0}};
    return options;
  }

 private:
  std::string member(const std::string& lane, const Json& more) {
    Json arguments{{"flow", id}, {"lane", lane}};
    arguments.update(more.is_null() ? Json::object() : more);
    return world_.execution(arguments);
  }

  World& world_;

 public:
  const Json id;
  std::string downstream;
  std::vector<std::string> upstream;
};

}  // namespace ff::test
