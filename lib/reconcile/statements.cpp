#include "reconcile/statements.hpp"

#include <fmt/format.h>
#include <regex>

#include "reconcile/slice.hpp"

namespace ff::reconcile {
namespace {

using fmt::arg;

// Writes "$n" for the parameters of one statement in their order.
class Numbering {
 public:
  explicit Numbering(std::size_t used) : used_(used) {}
  std::string next() { return fmt::format("${}", ++used_); }

 private:
  std::size_t used_;
};

// "execution_id, attempt_index", each behind `prefix`.
std::string key_list(const Reconciler& reconciler, std::string_view prefix = {}) {
  std::string list;
  for (const KeyColumn& column : reconciler.key)
    list += fmt::format("{}{}{}", list.empty() ? "" : ", ", prefix, column.name);
  return list;
}

// The database's clock, read once per statement; holdoff says how long after due_at_ms a row may be taken.
std::string clock_cte(const std::string& holdoff) {
  return fmt::format(R"sql(clock AS MATERIALIZED (
  SELECT now_ms, now_ms - {} AS due_ms
    FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms) reading
))sql",
                     holdoff);
}

// The condition is true of every key, but lets the planner expect one only, whatever the length of the arrays: then
// it looks each row up by its key. Of hundreds it believes that each lookup would visit all children, and that
// reading a whole index and comparing its rows with all keys costs less.
std::string key_cte(const Reconciler& reconciler, Numbering number) {
  std::string arrays = number.next();
  for (std::size_t i = 0; i < reconciler.key.size(); ++i) arrays += ", " + number.next();
  return fmt::format(R"sql(key AS MATERIALIZED (
  SELECT * FROM unnest({}) AS key(partition_key, {})
   WHERE (partition_key + 0, partition_key - 0) = (partition_key, partition_key)
))sql",
                     arrays, key_list(reconciler));
}

// "a.partition_key = ANY($1)" in the words that suit the plan. What is named beyond the end of the array is null,
// and the planner drops it.
std::string worded(const std::string& sql, pg::Plan plan) {
  static const std::regex phrase(R"re((\w+)\.partition_key = ANY\(\$1\))re");
  if (plan == pg::Plan::reused) return std::regex_replace(sql, phrase, "true");
  std::string each;
  for (std::size_t i = 1; i <= Statements::kNamed; ++i)
    each += fmt::format("{}$1.partition_key = ($$1)[{}]", each.empty() ? "" : " OR ", i);
  return std::regex_replace(sql, phrase, "(" + each + ")");
}

// The same with the partitions themselves where it says ($1)[1] and so on.
std::string written_out(std::string_view sql, const Partitions& partitions) {
  static_assert(Statements::kNamed < 10, "an index has one digit");
  constexpr std::string_view kElement = "($1)[";
  std::string text;
  for (;;) {
    const auto at = sql.find(kElement);
    text += sql.substr(0, at);
    if (at == std::string_view::npos) return text;
    const auto digit = at + kElement.size();
    const auto index = static_cast<std::size_t>(sql[digit] - '1');
    text +=
        index < partitions.size() ? fmt::format("{}::smallint", partitions[index].value) : "NULL::smallint";
    sql.remove_prefix(digit + 2);  // the digit and its bracket
  }
}

// One row at least, so that the clock is read even where nothing is found.
constexpr std::string_view kPage = R"sql(
WITH {clock}
SELECT found.partition_key, {keys}, found.due_at_ms, found.due_at_ms <= clock.due_ms AS is_due, clock.now_ms
  FROM clock
  LEFT JOIN (
    SELECT due.*
      FROM clock, unnest($1) AS wanted(partition_key)
     CROSS JOIN LATERAL (
       SELECT candidate.*
         FROM ({scan}
         ) candidate
        WHERE candidate.partition_key = wanted.partition_key
          AND candidate.due_at_ms <= clock.due_ms + {ahead}
          AND candidate.due_at_ms >= {from}{behind}
        ORDER BY candidate.due_at_ms{then_by}
        LIMIT {limit}
     ) due
  ) found ON true)sql";

constexpr std::string_view kOfExecution = R"sql(
WITH {clock}
SELECT candidate.partition_key, {candidate_keys}, candidate.due_at_ms,
       candidate.due_at_ms <= clock.due_ms AS is_due, clock.now_ms
  FROM clock, ({scan}
  ) candidate
 WHERE candidate.{execution_column} = {execution}
 ORDER BY candidate.due_at_ms, {candidate_keys})sql";

constexpr std::string_view kStillDue = R"sql(
WITH {clock},
{key}
SELECT partition_key, {keys}
  FROM clock, key
  JOIN ({scan}
  ) candidate USING (partition_key, {keys})
 WHERE candidate.due_at_ms + 0 <= clock.due_ms)sql";

constexpr std::string_view kAct = R"sql(
WITH {clock},
{key},
{act}
SELECT partition_key, {keys}, due_at_ms, outcome, clock.now_ms FROM moved, clock)sql";

constexpr std::string_view kForbidden = R"sql(
WITH {clock},
{key}
SELECT true FROM key WHERE {forbidden} LIMIT 1)sql";

constexpr std::string_view kBacklog = R"sql(
WITH {clock}
SELECT count(*) AS due, min(due_at_ms) AS oldest_due_ms, (SELECT now_ms FROM clock) AS now_ms
  FROM (
    SELECT candidate.due_at_ms
      FROM clock, unnest($1) AS wanted(partition_key)
     CROSS JOIN LATERAL (
       SELECT candidate.due_at_ms
         FROM ({scan}
         ) candidate
        WHERE candidate.partition_key = wanted.partition_key
          AND candidate.due_at_ms <= clock.due_ms
     ) candidate
     LIMIT {cap}
  ) due)sql";

constexpr std::string_view kSliceEnd = R"sql(
SELECT partition_key, {key}
  FROM {table}
 WHERE partition_key = ANY($1) AND (partition_key, {key}) > ($2, $3)
 ORDER BY partition_key, {key}
OFFSET $4::bigint - 1
 LIMIT 1)sql";

}  // namespace

Statements::Statements(const Reconciler& reconciler, pg::Plan plan) {
  pg::Params leading = reconciler.parameters(default_settings(reconciler), {});
  if (reconciler.walk) Slice().add_to(leading);
  const std::size_t own = leading.size();
  Numbering number(4 + own);
  const std::string clock = clock_cte(number.next());
  const std::string key = key_cte(reconciler, number);
  const std::string keys = key_list(reconciler);
  const std::string candidate_keys = key_list(reconciler, "candidate.");
  const auto make = [&](std::string_view text, const auto&... more) {
    return worded(fmt::format(fmt::runtime(text), arg("clock", clock), arg("key", key), arg("keys", keys),
                              arg("candidate_keys", candidate_keys), arg("scan", reconciler.scan), more...),
                  plan);
  };

  Numbering of_page = number;
  const std::string limit = of_page.next();
  const std::string ahead = of_page.next();
  const std::string from = of_page.next();
  const auto page_of = [&](const std::string& behind, const std::string& then_by) {
    return make(kPage, arg("limit", limit), arg("ahead", ahead), arg("from", from), arg("behind", behind),
                arg("then_by", then_by));
  };
  page = page_of("", "");
  std::string position = from;
  for (const KeyColumn& column : reconciler.key)
    position += fmt::format(", {}::{}", of_page.next(), column.type);
  rest = page_of(fmt::format("\n          AND (candidate.due_at_ms, {}) > ({})", candidate_keys, position),
                 ", " + candidate_keys);

  const std::string one = Numbering(number).next();
  if (!reconciler.execution_column.empty())
    of_execution =
        make(kOfExecution, arg("execution_column", reconciler.execution_column), arg("execution", one));
  still_due = make(kStillDue);
  act = make(kAct, arg("act", reconciler.act));
  if (!reconciler.forbidden.empty()) forbidden = make(kForbidden, arg("forbidden", reconciler.forbidden));
  backlog = make(kBacklog, arg("cap", one));
  if (const auto& walk = reconciler.walk)
    slice_end = fmt::format(fmt::runtime(kSliceEnd), arg("table", walk->table), arg("key", walk->key));
}

Statements::Statements(const Statements& few, const Partitions& partitions)
    : page(written_out(few.page, partitions)),
      rest(written_out(few.rest, partitions)),
      still_due(written_out(few.still_due, partitions)),
      act(written_out(few.act, partitions)),
      forbidden(written_out(few.forbidden, partitions)) {}

}  // namespace ff::reconcile
