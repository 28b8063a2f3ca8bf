#include "config/checks.hpp"

#include "base/duration.hpp"

namespace ff::config {
namespace {

template <typename FilterOf>
Check half_a_tag(const std::string& section, FilterOf filter) {
  const std::string tag = section + ".instance_tag";
  return {{tag, tag + ".key", tag + ".value"},
          [filter](const Config& config) {
            const auto& own = filter(config).instance_tag;
            return own && (own->key.empty() || own->value.empty());
          },
          [](const Config&) { return std::string("an instance tag needs both key and value"); }};
}

std::optional<std::size_t> place_of(std::string_view name, const std::vector<ReconcilerDecl>& decls) {
  for (std::size_t i = 0; i < decls.size(); ++i)
    if (decls[i].name == name) return i;
  return std::nullopt;
}

// An event that retention has deleted must not read as one that was never written. Retention goes by when it was written,
// and the end may be dated as much later (outbox_retention.cpp).
constexpr Milliseconds kDatedAhead{std::chrono::hours{1}};

// As completion_repair has it.
constexpr Milliseconds kShortestAge{std::chrono::minutes{1}};

// What else would do, where it would.
std::string shorter_age(Milliseconds kept) {
  if (kept - kDatedAhead < kShortestAge) return {};
  return ", or a max_age of at most " + format_duration(kept - kDatedAhead) + " with this retention";
}

std::string fewer_threads(int pool_size) {
  if (pool_size < 2) return {};
  return ", or at most " + std::to_string(pool_size - 1) + " threads and helpers together";
}

void add_repair_within_retention(const std::vector<ReconcilerDecl>& decls, std::vector<Check>& table) {
  const auto repair = place_of("completion_repair", decls);
  const auto retention = place_of("outbox_retention", decls);
  if (!repair || !retention) return;
  const auto setting = [](const Config& c, std::size_t place, const char* name) {
    return Milliseconds{*c.reconcilers.at(place).settings.at(name)};
  };
  table.push_back(
      {{"reconcilers.completion_repair.max_age", "reconcilers.outbox_retention.retention"},
       [=](const Config& c) {
         return c.reconcilers.at(*repair).enabled && c.reconcilers.at(*retention).enabled &&
                setting(c, *repair, "max_age") > setting(c, *retention, "retention") - kDatedAhead;
       },
       [=](const Config& c) {
         const Milliseconds max_age = setting(c, *repair, "max_age");
         const Milliseconds kept = setting(c, *retention, "retention");
         return "an event that reconcilers.outbox_retention has deleted after " + format_duration(kept) +
                " would read as one that was never written to reconcilers.completion_repair, whose "
                "max_age is " +
                format_duration(max_age) + " (allowed: a retention of at least " +
                format_duration(max_age + kDatedAhead) + " with this max_age" + shorter_age(kept) + ")";
       }});
}

}  // namespace

std::vector<Check> checks(const std::vector<ReconcilerDecl>& decls) {
  std::vector<Check> table{
      {{"database.pool_size", "threads", "helpers"},
       [](const Config& c) { return c.database.pool_size < c.threads + c.helpers + 1; },
       [](const Config& c) {
         return "database.pool_size is " + std::to_string(c.database.pool_size) + ", but " +
                std::to_string(c.threads) + " threads and " + std::to_string(c.helpers) +
                " helpers need one connection each and the daemon one for itself (allowed: a pool_size of " +
                std::to_string(c.threads + c.helpers + 1) + " or more" + fewer_threads(c.database.pool_size) +
                ")";
       }},
      {{"database.connect_timeout", "database.acquire_timeout"},
       [](const Config& c) { return c.database.connect_timeout > c.database.acquire_timeout; },
       [](const Config& c) {
         const std::string connect = format_duration(c.database.connect_timeout);
         const std::string acquire = format_duration(c.database.acquire_timeout);
         return "database.connect_timeout is " + connect + ", and database.acquire_timeout, which is " +
                acquire + ", would always end first (allowed: a connect_timeout of at most " + acquire +
                ", or an acquire_timeout of at least " + connect + ")";
       }},
  };
  table.push_back(half_a_tag("filter", [](const Config& c) -> const ScannerFilter& { return c.filter; }));
  for (std::size_t i = 0; i < decls.size(); ++i) {
    if (!decls[i].filterable) continue;
    const std::string section = "reconcilers." + std::string(decls[i].name) + ".filter";
    table.push_back(half_a_tag(
        section, [i](const Config& c) -> const ScannerFilter& { return c.reconcilers.at(i).filter; }));
  }
  add_repair_within_retention(decls, table);
  return table;
}

}  // namespace ff::config
