#include "reconcile/family/let_finish.hpp"

#include "reconcile/with.hpp"

namespace ff::reconcile::let_finish {
namespace {

constexpr std::string_view kMayFinish =
    R"sql(({core}.lifecycle_phase = 'cancelled'
      AND (SELECT true
             FROM {schema}.ff_cancel_backlog b
             JOIN {schema}.ff_cancel_backlog_member m ON m.partition_key = b.partition_key AND m.flow_id = b.flow_id
            WHERE {in_partitions:b} AND {in_partitions:m} AND b.partition_key = {core}.partition_key
              AND b.flow_id = {core}.flow_id AND {lets_finish:b}
              AND m.execution_id = {member_name:{core}}
            LIMIT 1) IS NOT NULL))sql";

constexpr std::string_view kIsStillAtWork =
    R"sql(({may_finish:{core}}
      AND (SELECT true
             FROM {schema}.ff_attempt l
            WHERE {in_partitions:l} AND {same_execution:l, {core}}
              AND l.lease_expires_at_ms + 0 >= (SELECT now_ms FROM clock)
            LIMIT 1) IS NOT NULL))sql";

}  // namespace

std::vector<Fragment> phrases() {
  return {// A later cancel of the same flow says it in the flow's row only, and has no date: under cancel_all
          // no worker is left any time.
          {"lets_finish(backlog)",
           R"sql(({backlog}.cancellation_policy <> 'cancel_all'
      AND (SELECT true
             FROM {schema}.ff_flow_core o
            WHERE {in_partitions:o} AND o.partition_key = {backlog}.partition_key AND o.flow_id = {backlog}.flow_id
              AND o.raw_fields->>'cancellation_policy' = 'cancel_all'
            LIMIT 1) IS NULL))sql"},
          {"member_name(core)", "concat('{', 'fp:', {core}.partition_key, '}:', {core}.execution_id)"},
          {"backlog_in_sight", "{in_sight:ff_cancel_backlog, ff_cancel_backlog_member, ff_flow_core}"},
          {"may_finish(core)", std::string(kMayFinish)},
          {"is_still_at_work(core)", std::string(kIsStillAtWork)}};
}

std::vector<Privileges> privileges(const std::vector<Privileges>& beside) {
  return with<Privileges>({{"ff_attempt", "SELECT"},
                           {"ff_cancel_backlog", "SELECT"},
                           {"ff_cancel_backlog_member", "SELECT"},
                           {"ff_flow_core", "SELECT"}},
                          beside);
}

}  // namespace ff::reconcile::let_finish
