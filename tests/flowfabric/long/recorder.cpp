#include "long/recorder.hpp"

#include <algorithm>
#include <map>

namespace ff::test {
namespace {

constexpr std::string_view kTables[] = {"ff_exec_core",         "ff_attempt",     "ff_suspension_current",
                                        "ff_waitpoint_pending", "ff_edge_group",  "ff_claim_grant",
                                        "ff_completion_event",  "ff_lease_event", "ff_operator_event"};

constexpr std::string_view kInstall = R"sql(
CREATE TABLE recorded_change (
  number bigint GENERATED ALWAYS AS IDENTITY,
  transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
  who text NOT NULL DEFAULT current_setting('application_name'),
  at_ms bigint NOT NULL DEFAULT floor(extract(epoch FROM clock_timestamp()) * 1000),
  table_name text NOT NULL,
  operation text NOT NULL,
  content jsonb NOT NULL);
CREATE FUNCTION record_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  content jsonb := CASE WHEN TG_OP = 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END;
BEGIN
  INSERT INTO public.recorded_change (table_name, operation, content)
  VALUES (TG_ARGV[0], TG_OP, content - 'payload' - 'result' - 'token');
  RETURN NULL;
END $$
)sql";

constexpr std::string_view kRemove = R"sql(
DROP FUNCTION IF EXISTS record_change CASCADE;
DROP TABLE IF EXISTS recorded_change
)sql";

constexpr std::string_view kRead = R"sql(
SELECT transaction::text, who, at_ms, table_name, operation, content::text FROM recorded_change ORDER BY number
)sql";

}  // namespace

Recorder::Recorder(pg::Connection& connection) : connection_(connection) {
  remove();
  connection_.execute_script(std::string(kInstall));
  for (const std::string_view table : kTables)
    connection_.execute("CREATE TRIGGER record_change AFTER INSERT OR UPDATE OR DELETE ON " +
                        std::string(table) + " FOR EACH ROW EXECUTE FUNCTION record_change('" +
                        std::string(table) + "')");
}

// A transaction that changes a row after another did has its last change after the other's: the other has to be
// over before it gets the row. So the last changes have the order.
std::vector<Commit> Recorder::stop() {
  std::map<std::string, Commit> open;
  std::map<std::string, int> last;
  const pg::Result rows = connection_.execute(std::string(kRead));
  for (int i = 0; i < rows.size(); ++i) {
    const pg::Row row = rows[i];
    const auto transaction = row.get<std::string>(0);
    Commit& commit = open[transaction];
    if (commit.changes.empty()) {
      commit.who = row.get<std::string>(1);
      commit.at_ms = row.get<std::int64_t>(2);
    }
    commit.changes.push_back(
        {row.get<std::string>(3), row.get<std::string>(4), Json::parse(row.get<std::string>(5))});
    last[transaction] = i;
  }
  std::map<int, Commit> ordered;
  for (auto& [transaction, commit] : open) ordered.emplace(last.at(transaction), std::move(commit));
  std::vector<Commit> all;
  for (auto& [number, commit] : ordered) all.push_back(std::move(commit));
  remove();
  return all;
}

void Recorder::remove() {
  connection_.execute_script(std::string(kRemove));
}

}  // namespace ff::test
