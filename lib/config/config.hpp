#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/partition_choice.hpp"
#include "base/scanner_filter.hpp"
#include "base/setting.hpp"
#include "base/time.hpp"

namespace ff::config {

/// What configuration has to know of a reconciler: its name, its defaults and what its operator may choose.
/// The caller passes one per reconciler; this library knows none by itself. The views must outlive every call
/// they are passed to.
struct ReconcilerDecl {
  std::string_view name;     ///< the key below `reconcilers`, in snake case
  std::string_view summary;  ///< one line for the documentation
  bool enabled = true;
  Milliseconds interval{1000};
  int batch_size = 1000;
  bool filterable = true;  ///< false: the scanner filter does not apply to its rows
  std::vector<SettingDecl> settings;
};

/// How to reach the database. At most one of `password` and `password_file` is set.
struct Database {
  std::string url;            ///< URL or keyword string; empty: libpq's PG* variables and defaults
  std::string url_file;       ///< where `url` was read from when the configuration was loaded, or empty
  std::string password;       ///< overrides the one in `url`
  std::string password_file;  ///< not opened here: it is read anew for each connection
  int pool_size = 8;
  Milliseconds acquire_timeout{5'000};
  Milliseconds connect_timeout{3'000};
  Milliseconds statement_timeout{30'000};
};

struct Reconciler {
  std::string name;
  bool enabled = true;
  Milliseconds interval{};
  int batch_size = 0;
  ScannerFilter filter;  ///< what holds for it: its own, else the common one; empty when it is not filterable
  Settings settings;     ///< one entry per declared setting
};

struct Http {
  std::string host = "127.0.0.1";  ///< a name or an address, without brackets
  int port = 9464;                 ///< 0: any free one
  bool unready_on_fault = false;   ///< /readyz answers 503, too, while a reconciler fails
};

enum class LogLevel { trace, debug, info, warn, error };
enum class LogFormat { text, json };

struct Log {
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;
  bool actions = false;  ///< a line for each execution that was ended and each row that was deleted
};

struct Shutdown {
  Milliseconds grace{20'000};
};

struct Metrics {
  bool per_partition = false;
};

/// What gives work back, and how fast: `storm: on` and `storm: off` are `enabled`.
struct Storm {
  static constexpr std::int64_t kAuto = -1;
  static constexpr std::int64_t kNoLimit = 0;
  enum class Breaker { off, on };

  bool enabled = false;
  std::int64_t rate = kAuto;  ///< rows a second
  int floor = 1000;           ///< the least that `auto` comes to
  Breaker breaker = Breaker::on;
  int share = 4;  ///< percent
  Milliseconds hold{30'000};
};

/// A complete configuration: every range and contradiction has been checked by the time anybody sees one.
struct Config {
  Database database;
  PartitionChoice partitions = AllPartitions{};
  ScannerFilter filter;
  int threads = 4;
  int helpers = 0;  ///< threads that lend a hand to whichever tick has a large backlog
  Milliseconds recovery_grace{15'000};
  Storm storm;
  std::vector<Reconciler> reconcilers;  ///< in the order of the declarations, one each
  Http http;
  Log log;
  Shutdown shutdown;
  Metrics metrics;
};

}  // namespace ff::config
