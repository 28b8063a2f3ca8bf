#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <numeric>
#include <thread>

#include "base/duration.hpp"
#include "base/printable.hpp"
#include "commands.hpp"
#include "config/problem.hpp"
#include "configuration.hpp"
#include "exit_codes.hpp"
#include "log.hpp"
#include "log_actions.hpp"
#include "migrate/migrate.hpp"
#include "pasted.hpp"
#include "pause/release.hpp"
#include "pg/server.hpp"
#include "reconcile/named_rows.hpp"
#include "report_json.hpp"
#include "supervisor/thread_fork_join.hpp"

namespace ff::daemon {
namespace {

using nlohmann::ordered_json;
using reconcile::Reconciler;
using reconcile::TickReport;

constexpr Milliseconds kLongestGap = std::chrono::hours{1};
// That the database's clock is behind ours after a wait.
constexpr Milliseconds kBehind{50};

std::vector<const Reconciler*> named(const Arguments& arguments, const config::Config& config) {
  auto found = named_reconcilers(arguments.words(), config);
  if (arguments.words().front() == "all" && arguments.has("execution"))
    std::erase_if(found, [](const Reconciler* r) { return r->execution_column.empty(); });
  return found;
}

std::optional<ExecutionId> execution(const Arguments& arguments,
                                     const std::vector<const Reconciler*>& reconcilers) {
  const auto text = arguments.text("execution");
  if (!text) return std::nullopt;
  const auto id = parse_execution_id(*text);
  if (!id)
    throw UsageError("--execution: " + in_quotes(*text) + " is no execution (allowed: {fp:PARTITION}:UUID)");
  for (const Reconciler* r : reconcilers)
    if (r->execution_column.empty())
      throw UsageError("--execution: the rows of " + std::string(r->name) + " are no executions'");
  return id;
}

// Who names both wants to be held to both.
void refuse_if_left_out(const std::optional<ExecutionId>& id, const std::optional<Partitions>& named) {
  if (id && named && !std::ranges::binary_search(*named, id->partition))
    throw UsageError(fmt::format("--execution: {} is not in --partitions {}", in_quotes(to_string(*id)),
                                 format_partitions(*named)));
}

// Who names a namespace does not expect rows of others to be moved.
void refuse_what_filters_nothing(const Arguments& arguments,
                                 const std::vector<const Reconciler*>& reconcilers) {
  for (const char* flag : {"namespace", "instance-tag"}) {
    std::string names;
    for (const Reconciler* r : reconcilers)
      if (!r->filterable) names.append(names.empty() ? "" : ", ").append(r->name);
    if (!arguments.has(flag) || names.empty()) continue;
    if (arguments.words().front() != "all")
      throw UsageError(fmt::format("--{}: the filter does not apply to {}", flag, names));
    std::cerr << fmt::format("--{} does not apply to {}: all that is due there is taken\n", flag, names);
  }
}

// Those named by the flag, or else by the configuration, once it is known which ones there are.
Partitions covered(const std::optional<ExecutionId>& id, const std::optional<Partitions>& named,
                   const config::Config& config, pg::Pool& pool) {
  const int count = migrate::flow_partitions(*pool.acquire());
  if (id)
    if (const auto reason = reason_against(cover(PartitionChoice{Partitions{id->partition}}, count));
        !reason.empty())
      throw UsageError("--execution: " + reason);
  const Coverage coverage = cover(named ? PartitionChoice{*named} : config.partitions, count);
  const std::string reason = reason_against(coverage);
  if (!reason.empty() && named) throw UsageError("--partitions: " + reason);
  if (!reason.empty())
    throw config::Invalid({{"", 0, "partitions", format_choice(config.partitions), reason}});
  return coverage.covered;
}

// $1 a partition, $2 an execution of it
constexpr std::string_view kIsThere = R"sql(
SELECT EXISTS (SELECT FROM {schema}.ff_exec_core WHERE partition_key = $1 AND execution_id = $2))sql";

// Of which no reconciler has found a row. Not each of them needs a role that may read the executions themselves.
bool is_no_execution(const ExecutionId& id, pg::Pool& pool) {
  try {
    if (pool.acquire()->execute(kIsThere, pg::Params::of(id.partition, id.uuid)).one().get<bool>(0))
      return false;
    std::cerr << fmt::format("no such execution: '{}'\n", to_string(id));
    return true;
  } catch (const pg::Error& error) {
    if (!error.lacks_privilege()) throw;
    std::cerr << "whether there is such an execution is not known: " << printable(error.what()) << '\n';
    return false;
  }
}

// How long rows have to stand still, where they have to: nothing: as long as their reconciler says.
std::optional<Milliseconds> gap(const Arguments& arguments) {
  const auto text = arguments.text("gap");
  if (!text) return std::nullopt;
  const auto gap = parse_duration(*text);
  if (!gap || *gap > kLongestGap)
    throw UsageError("--gap: " + in_quotes(*text) + " is no duration up to " + format_duration(kLongestGap) +
                     " (allowed: 60s, 5m)");
  return gap;
}

// The flags narrow down what the configuration says of a reconciler.
reconcile::Scope scope(const Arguments& arguments, const config::Config& config, const Reconciler& reconciler,
                       const reconcile::Family& family) {
  const auto its = std::find_if(config.reconcilers.begin(), config.reconcilers.end(),
                                [&](const config::Reconciler& r) { return r.name == reconciler.name; });
  reconcile::Scope scope = scope_of(config, *its, {});
  scope.family = family;
  if (const auto name = arguments.text("namespace")) scope.filter.name_space = *name;
  if (const auto tag = arguments.instance_tag()) scope.filter.instance_tag = *tag;
  if (!reconciler.filterable) scope.filter = {};
  scope.still_for = gap(arguments);
  if (const auto rows = arguments.number("batch-size", 1, 100'000))
    scope.batch_size = static_cast<int>(*rows);
  return scope;
}

// An execution is named so that it can be pasted behind `explain` or --execution.
std::string text_of(const Reconciler& pair, const reconcile::RowKey& key,
                    const std::optional<ExecutionId>& execution) {
  return fmt::format("{} {}", dump(key_json(pair, key)),
                     execution ? fmt::format("'{}'", to_string(*execution))
                               : fmt::format("partition={}", key.partition.value));
}

void print_json(const Reconciler& reconciler, const TickReport& report, const reconcile::Scope& scope,
                double seconds, bool dry_run) {
  for (const reconcile::Move& move : report.moves) {
    std::cout << dump({{"reconciler", reconciler.name},
                       {"would", move.outcome},
                       {"partition", move.key.partition.value},
                       {"key", key_json(*move.pair, move.key)},
                       {"execution", execution_json(reconcile::execution_of(*move.pair, move.key))},
                       {"due_at_ms", count(move.due_at)}})
              << '\n';
  }
  for (const reconcile::Fault& fault : report.faults) {
    std::cout << dump({{"reconciler", reconciler.name},
                       {"would", "fail"},
                       {"partition", fault.key.partition.value},
                       {"key", key_json(*fault.pair, fault.key)},
                       {"execution", execution_json(fault.execution)},
                       {"sqlstate", fault.error.sqlstate()},
                       {"message", fault.error.what()}})
              << '\n';
  }
  ordered_json line{{"reconciler", reconciler.name}, {"partitions", format_partitions(scope.partitions)}};
  line.update(counts_json(report));
  line["duration_seconds"] = seconds;
  line["dry_run"] = dry_run;
  if (report.hold) line["hold"] = hold_json(reconciler.name, report.hold);
  std::cout << dump(line) << '\n';
}

void print_text(const Reconciler& reconciler, const TickReport& report, double seconds, bool dry_run) {
  for (const reconcile::Move& move : report.moves) {
    std::cout << fmt::format("would {:<14} {} due_at_ms={}", move.outcome,
                             text_of(*move.pair, move.key, reconcile::execution_of(*move.pair, move.key)),
                             count(move.due_at))
              << '\n';
  }
  for (const reconcile::Fault& fault : report.faults) {
    std::cout << fmt::format("would {:<14} {}: {}", "fail", text_of(*fault.pair, fault.key, fault.execution),
                             printable(fault.error.what()))
              << '\n';
  }
  std::string details;
  for (const auto& [outcome, count] : report.outcomes) details += fmt::format(" {}={}", outcome, count);
  for (const auto& [skip, count] : report.skipped) details += fmt::format(" {}={}", name(skip), count);
  for (const auto& [cls, count] : report.errors) details += fmt::format(" error[{}]={}", cls, count);
  std::cout << fmt::format("{}: {} due, {} {} in {:.3f} s{}{}", reconciler.name, report.scanned,
                           report.processed, dry_run ? "would move" : "moved", seconds,
                           details.empty() ? "" : ":", details)
            << '\n';
}

// By hand it goes on: somebody may want just this one row moved.
void say_what_is_paused(pg::Connection& connection, const std::vector<const Reconciler*>& reconcilers) {
  const pause::Reading pauses = pause::try_to_read(connection);
  if (pauses.table == pause::Reading::Table::unreadable)
    std::cerr << "whether they are paused is not known: " << pauses.why_unreadable << '\n';
  for (const Reconciler* reconciler : reconcilers)
    for (const pause::Pause& each : pause::covering(pauses.in_force, reconciler->name))
      std::cerr << fmt::format("{}: paused{}, {}; this tick by hand goes on\n", reconciler->name,
                               each.reconciler == pause::kAll ? " with all" : "",
                               pause::text_of(each, pauses.database_time));
}

// As a replica does. A row that is named, and a dry run, are not held.
void say_what_is_held(const Reconciler& reconciler, const TickReport& report, bool json,
                      const Pasted& pasted) {
  if (!report.hold) return;
  if (report.hold->released) {
    std::cerr << fmt::format("{}: more than {} rows are due, and an operator has released them\n",
                             reconciler.name, report.hold->above);
    return;
  }
  (json ? std::cerr : std::cout) << fmt::format(
      "{}: held: more than {} rows are due (hold_above), and none was moved\n-> {}\n", reconciler.name,
      report.hold->above, pasted(fmt::format("ff-reconcilerd resume {}", reconciler.name)));
}

/// The reconcilers that were named, each with its engine, and what they have done so far.
class Passes {
 public:
  Passes(const Arguments& arguments, const std::vector<const Reconciler*>& reconcilers,
         const std::optional<ExecutionId>& execution, const config::Config& config, pg::Pool& pool,
         reconcile::ForkJoin& fork_join)
      : execution_(execution),
        pool_(pool),
        json_(arguments.has("json")),
        dry_run_(arguments.has("dry-run")),
        pasted_(arguments),
        action_log_(config.log.actions) {
    reconcile::Family family;
    for (const config::Reconciler& its : config.reconcilers)
      for (const Reconciler* r : reconcilers)
        if (r->name == its.name) family.enabled.emplace(its.name, its.settings);
    for (const Reconciler* r : reconcilers)
      engines_.emplace_back(*r, scope(arguments, config, *r, family), pool, Clock::system(), fork_join);
  }

  void set_releases(std::vector<pause::Release> releases) { releases_ = std::move(releases); }

  void set_partitions(const Partitions& partitions) {
    for (reconcile::Engine& engine : engines_) {
      reconcile::Scope scope = engine.scope();
      scope.partitions = partitions;
      engine.set_scope(scope);
    }
  }

  // One may make work for another, so those that are told of their rows are asked again until none moves anything, as
  // are those that left some. What falls due by the clock alone may do so for ever: a budget with a short interval.
  int run() {
    std::vector<std::int64_t> left(engines_.size());
    for (bool first = true;; first = false) {
      std::int64_t moved = 0;
      for (std::size_t i = 0; i < engines_.size(); ++i) {
        if (!first && left[i] == 0 && !is_told_of_its_rows(engines_[i])) continue;
        const TickReport report = one(engines_[i], first);
        moved += report.processed;
        left[i] = left_by(report);
      }
      if (moved == 0 || dry_run_ || failed_) break;
    }
    if (execution_ && !found_ && !failed_ && is_no_execution(*execution_, pool_)) return kProblem;
    const auto all_left = std::accumulate(left.begin(), left.end(), std::int64_t{0});
    const bool all_later = later_ == engines_.size();
    if (!json_ && !dry_run_ && !failed_ && !all_later)
      std::cout << (all_left == 0 ? "nothing is left due\n"
                                  : fmt::format("left due: {}{}\n", all_left, held_ ? " or more" : ""));
    return errors_ > 0 || held_ ? kProblem : kDone;
  }

 private:
  // One that moved rows and left others unread (a slice of a large flow) goes on; one that moved none is held by something.
  static std::int64_t left_by(const TickReport& report) {
    const std::int64_t seen = report.scanned + report.watched - report.processed;
    return report.more && report.processed > 0 ? std::max<std::int64_t>(seen, 1) : seen;
  }

  static bool has_found(const TickReport& report) {
    return report.scanned + report.watched + report.processed + report.error_count() > 0 ||
           !report.skipped.empty();
  }

  static bool is_told_of_its_rows(const reconcile::Engine& engine) {
    return engine.reconciler().announced(engine.scope().settings).has_value();
  }

  // Of the one that is named, "in 9 m 56 s", where it has rows, but none that is due by now.
  std::optional<std::string> not_yet(const reconcile::Engine& engine, const TickReport& report) {
    const auto due = report.scanned + report.watched + report.processed + report.error_count();
    if (!execution_ || report.failure || due > 0) return std::nullopt;
    auto connection = pool_.acquire();
    pg::Transaction transaction(*connection, {.isolation = pg::Isolation::snapshot});
    const auto rows = reconcile::NamedRows(engine.reconciler(), engine.scope()).of(transaction, *execution_);
    const UnixMillis now = pg::server_info(*connection).now;
    transaction.rollback();
    const auto first = std::ranges::min_element(rows, {}, &reconcile::NamedRow::takeable_at);
    if (first == rows.end() || std::ranges::any_of(rows, &reconcile::NamedRow::due) ||
        first->takeable_at <= now)
      return std::nullopt;
    return "in " + spoken_duration(first->takeable_at - now);
  }

  // Whoever waits here may be a person.
  static void wait_for(const reconcile::Engine& engine, std::int64_t rows) {
    const Milliseconds gap = engine.scope().still_for.value_or(engine.reconciler().still_for);
    std::cerr << fmt::format("{}: {} rows have to stand still for {} first\n", engine.reconciler().name, rows,
                             format_duration(gap));
    std::this_thread::sleep_for(gap + kBehind);
  }

  TickReport one(reconcile::Engine& engine, bool first) {
    const reconcile::TickOptions options{
        .released =
            [&](UnixMillis since) {
              return pause::releasing(releases_, engine.reconciler().name, since, {}).has_value();
            },
        .dry_run = dry_run_,
        .list_moves = dry_run_,
        .tell = action_log_.teller()};
    const auto started = Clock::system().now();
    const auto pass = [&] {
      return execution_ ? engine.tick_one(*execution_, options) : engine.tick(options);
    };
    TickReport report = pass();
    if (first && report.watched > 0 && report.processed == 0 && !report.failure) {
      wait_for(engine, report.watched);
      report = pass();
    }
    const auto due_at = first && !json_ ? not_yet(engine, report) : std::nullopt;
    const double took = std::chrono::duration<double>(Clock::system().now() - started).count();
    errors_ += report.error_count();
    if (has_found(report)) found_ = true;
    if (due_at) {
      std::cout << engine.reconciler().name << ": not yet due: " << *due_at << '\n';
      ++later_;
    } else if (first || report.processed > 0) {
      if (json_)
        print_json(engine.reconciler(), report, engine.scope(), took, dry_run_);
      else
        print_text(engine.reconciler(), report, took, dry_run_);
    }
    if (first) say_what_is_held(engine.reconciler(), report, json_, pasted_);
    if (report.hold && !report.hold->released) held_ = true;
    if (report.failure) {
      const pg::Error& error = *report.failure;
      if (error.connection_lost() || error.not_writable()) throw error;
      std::cerr << engine.reconciler().name << ": " << error.what() << '\n';
      failed_ = true;
    }
    return report;
  }

  const std::optional<ExecutionId> execution_;
  pg::Pool& pool_;
  const bool json_;
  const bool dry_run_;
  const Pasted pasted_;
  ActionLog action_log_;
  std::vector<reconcile::Engine> engines_;
  std::vector<pause::Release> releases_;
  std::int64_t errors_ = 0;
  bool found_ = false;  // any row of what was named
  bool held_ = false;
  std::size_t later_ = 0;  // reconcilers that have the one that is named, and not yet
  bool failed_ = false;
};

}  // namespace

int tick(const Arguments& arguments) {
  const config::Config config = load_config(arguments);
  const auto reconcilers = named(arguments, config);
  const auto id = execution(arguments, reconcilers);
  refuse_what_filters_nothing(arguments, reconcilers);
  const auto named_keys = arguments.partitions();
  refuse_if_left_out(id, named_keys);
  set_up_log({config::LogLevel::error, config.log.format});
  const pg::Connector connector = make_connector(config.database);
  pg::Pool pool(connector, 1 + config.helpers, config.database.acquire_timeout);
  supervisor::ThreadForkJoin fork_join(config.helpers);
  Passes passes(arguments, reconcilers, id, config, pool, fork_join);
  say_what_is_paused(*pool.acquire(), reconcilers);
  passes.set_releases(pause::try_to_read_releases(*pool.acquire()).all);
  passes.set_partitions(covered(id, named_keys, config, pool));
  return passes.run();
}

}  // namespace ff::daemon
