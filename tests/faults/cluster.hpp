#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pg/connection.hpp"
#include "support/process.hpp"
#include "support/standstill.hpp"
#include "testserver/child_process.hpp"

namespace ff::faults {

/// Two PostgreSQL servers with streaming replication, of which Patroni lets one take writes, and promotes the other when
/// that one is gone: by a lease of its own in etcd, of 20 s. A commit is on both before whoever asked for it is told. On
/// ports of 127.0.0.1 that were free. Wants the programs `etcd` and `patroni` in the PATH.
class Cluster {
 public:
  struct Options {
    std::string hba = {};  ///< lines of pg_hba.conf, in front of those of the superuser
    std::map<std::string, std::string> settings = {};
  };
  static constexpr int kNodes = 2;

  /// Starts both: see wait_until_whole().
  explicit Cluster(const Options& options);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  /// Both, as keywords of a connection string.
  std::string hosts() const;
  /// Of the superuser.
  std::string conninfo(const std::string& database) const;

  /// Whether it takes writes; nothing: it does not answer within a second.
  std::optional<bool> takes_writes(int node) const;
  /// Throws std::runtime_error when there is none within a minute.
  int primary() const;
  /// Until one takes writes and the other has all of them. Throws std::runtime_error with what Patroni said.
  void wait_until_whole() const;

  /// The other one becomes the primary, as an administrator asks for it.
  void switch_over();
  /// The power goes: SIGKILL for everything of a node.
  void kill(int node);
  /// It comes back.
  void start(int node);
  /// Nothing of a node moves, until it is thawed.
  void freeze(int node);
  void thaw(int node);

  /// What the servers and Patroni have written, in any order.
  std::vector<std::filesystem::path> logs() const;

 private:
  struct Node {
    std::string name;
    std::filesystem::path directory;
    int port = 0;
    int rest_port = 0;
    std::unique_ptr<testserver::ChildProcess> patroni;
    std::unique_ptr<test::Standstill> frozen;
  };
  Node& at(int node) { return nodes_.at(static_cast<std::size_t>(node)); }
  const Node& at(int node) const { return nodes_.at(static_cast<std::size_t>(node)); }

  std::filesystem::path make_directory(const std::string& name) const;
  std::filesystem::path file(const std::string& name) const { return directory_.path() / name; }
  std::unique_ptr<testserver::ChildProcess> launch(const std::string& log,
                                                   std::vector<std::string> words) const;
  void start_etcd();
  std::string configuration(const Node& node, const Options& options) const;
  static std::optional<pid_t> postmaster(const Node& node);
  std::optional<std::int64_t> ask(int node, const std::string& sql) const;
  std::string control(std::vector<std::string> words) const;
  bool is_whole() const;

  const test::TemporaryDirectory directory_;
  const std::optional<testserver::Account> account_;
  int etcd_port_ = 0;
  std::unique_ptr<testserver::ChildProcess> etcd_;
  std::array<Node, kNodes> nodes_;
};

}  // namespace ff::faults
