#include "reconcile/statements.hpp"

namespace ff::reconcile {
namespace {

// Writes "$n" for the parameters of one statement in their order.
class Numbering {
 public:
  explicit Numbering(std::size_t used) : used_(used) {}
  std::string next() { return "$" + std::to_string(++used_); }

 private:
  std::size_t used_;
};

std::string key_list(const Reconciler& reconciler, std::string_view prefix) {
  std::string list;
  for (const KeyColumn& column : reconciler.key)
    list += (list.empty() ? "" : ", ") + std::string(prefix) + std::string(column.name);
  return list;
}

// The database's clock, read once per statement; $holdoff says how long after due_at_ms a row may be taken.
std::string clock_cte(const std::string& holdoff) {
  return "clock AS MATERIALIZED (\n"
         "  SELECT now_ms, now_ms - " +
         holdoff +
         " AS due_ms\n"
         "    FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms) reading\n)";
}

std::string key_cte(const Reconciler& reconciler, Numbering& number) {
  std::string arrays = number.next();
  for (std::size_t i = 0; i < reconciler.key.size(); ++i) arrays += ", " + number.next();
  return "key AS MATERIALIZED (\n  SELECT * FROM unnest(" + arrays + ") AS key(partition_key, " +
         key_list(reconciler, "") + ")\n)";
}

std::string page_text(const Reconciler& reconciler, const std::string& clock, Numbering number) {
  const std::string limit = number.next();
  const std::string through = number.next();
  const std::string after = number.next();
  std::string position = after;
  for (const KeyColumn& column : reconciler.key)
    position += ", " + number.next() + "::" + std::string(column.type);
  return "WITH " + clock + "\nSELECT due.*, due.due_at_ms <= clock.due_ms AS is_due, clock.now_ms\n" +
         "  FROM clock, unnest($1) AS wanted(partition_key)\n CROSS JOIN LATERAL (\n" +
         "  SELECT candidate.partition_key, " + key_list(reconciler, "candidate.") +
         ", candidate.due_at_ms\n    FROM (" + reconciler.scan + "\n  ) candidate\n" +
         "   WHERE candidate.partition_key = wanted.partition_key\n" +
         "     AND candidate.due_at_ms <= coalesce(" + through + ", clock.due_ms)\n" +
         "     AND candidate.due_at_ms >= " + after + "\n" + "     AND (candidate.due_at_ms, " +
         key_list(reconciler, "candidate.") + ") > (" + position + ")\n" +
         "   ORDER BY candidate.due_at_ms, " + key_list(reconciler, "candidate.") + "\n   LIMIT " + limit +
         "\n ) due";
}

}  // namespace

Statements::Statements(const Reconciler& reconciler) {
  const std::size_t own = reconciler.parameters(default_settings(reconciler), {}).size();
  Numbering number(4 + own);
  const std::string clock = clock_cte(number.next());
  const std::string columns = "partition_key, " + key_list(reconciler, "");

  page = page_text(reconciler, clock, number);

  if (!reconciler.execution_column.empty()) {
    Numbering rest = number;
    of_execution = "WITH " + clock + "\nSELECT " + columns +
                   ", due_at_ms, due_at_ms <= clock.due_ms AS is_due, clock.now_ms\n  FROM clock, (" +
                   reconciler.scan + "\n  ) candidate\n WHERE candidate." +
                   std::string(reconciler.execution_column) + " = " + rest.next() +
                   "\n ORDER BY due_at_ms, " + key_list(reconciler, "");
  }
  {
    Numbering rest = number;
    const std::string keys = key_cte(reconciler, rest);
    still_due = "WITH " + clock + ",\n" + keys + "\nSELECT " + columns + "\n  FROM clock, key JOIN (" +
                reconciler.scan + "\n  ) candidate USING (" + columns +
                ")\n WHERE candidate.due_at_ms <= clock.due_ms";
    act = "WITH " + clock + ",\n" + keys + "," + reconciler.act + "\nSELECT " + columns +
          ", due_at_ms, outcome, clock.now_ms FROM moved, clock";
  }
  {
    Numbering rest = number;
    backlog =
        "WITH " + clock +
        "\nSELECT count(*) AS due, min(due_at_ms) AS oldest_due_ms, (SELECT now_ms FROM clock) FROM (\n" +
        "  SELECT candidate.due_at_ms FROM clock, (" + reconciler.scan +
        "\n  ) candidate\n   WHERE candidate.due_at_ms <= clock.due_ms LIMIT " + rest.next() + "\n) due";
  }
}

}  // namespace ff::reconcile
