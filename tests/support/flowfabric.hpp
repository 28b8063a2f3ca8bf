#pragma once

#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"
#include "pg/connect.hpp"
#include "testserver/private_server.hpp"

/// The real FlowFabric: its workers, clients and operators, by way of the program in tests/flowfabric.
namespace ff::test {

using Json = nlohmann::json;

/// FlowFabric refused: `kind` names the variants of its error, such as "Contention.LeaseConflict".
class FlowFabricError : public std::runtime_error {
 public:
  FlowFabricError(std::string kind, const std::string& message)
      : std::runtime_error(kind + ": " + message), kind_(std::move(kind)) {}
  const std::string& kind() const { return kind_; }

 private:
  const std::string kind_;
};

/// The program over one database; killed with the object. `ff-flowfabric --help` lists its operations. One
/// thread at a time.
class FlowFabric {
 public:
  /// Whether `./dev conformance` has built the program.
  static bool is_built();
  /// The names of what the program can do.
  static std::vector<std::string> operations();
  /// Where the program's last words go when it ends by an error.
  enum class Complaints { to_standard_error, nowhere };
  /// `options` as the program takes them, such as {"--seed", "7"}. Throws std::runtime_error when there is no
  /// such program: `./dev conformance` builds it.
  explicit FlowFabric(const std::string& url, const std::vector<std::string>& options = {},
                      Complaints complaints = Complaints::to_standard_error);
  ~FlowFabric();
  FlowFabric(const FlowFabric&) = delete;
  FlowFabric& operator=(const FlowFabric&) = delete;

  /// When this returns, nothing of the operation is left open in the database. Throws FlowFabricError when
  /// FlowFabric refuses, std::runtime_error when there is no answer in time.
  Json call(std::string_view operation, Json arguments = Json::object(),
            Milliseconds at_most = Milliseconds{60'000});
  /// The kind of the refusal; "" when there was none.
  std::string refusal(std::string_view operation, Json arguments = Json::object());

  pid_t pid() const { return pid_; }

 private:
  void write_line(const std::string& line);
  std::string read_line(SteadyTime deadline);

  int socket_ = -1;
  pid_t pid_ = -1;
  std::int64_t last_id_ = 0;
  std::string unread_;
};

/// How Rust's driver is told of a database of this server.
std::string url_of(const testserver::PrivateServer& server, std::string_view database);

/// A database that FlowFabric's own migrations made, with a secret for tokens and grants. It lies on a server
/// of this test program, whose data stay beside the build for the next program, because making them takes half
/// a minute: so tests leave FlowFabric's schema alone, and expect that `migrate up` may have added ours before. One
/// object at a time: each begins with empty tables.
class FlowFabricDatabase {
 public:
  FlowFabricDatabase();

  /// Over this database, started for the first one.
  FlowFabric& flowfabric();
  const pg::Connector& connector() const { return connector_; }
  pg::Connection connect() const;
  std::string conninfo() const { return server().conninfo(kName); }
  std::string url() const { return url_of(server(), kName); }

  static constexpr const char* kName = "flowfabric";
  static testserver::PrivateServer& server();

 private:
  const pg::Connector connector_;
};

}  // namespace ff::test
