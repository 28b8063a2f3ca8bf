#include "reconcile/family/resume_condition.hpp"

namespace ff::reconcile::resume_condition {
namespace {

// A Single has `waitpoint_key`, a Count `waitpoints`, and an AllOf either of them somewhere below it.
constexpr std::string_view kAwaitedKeys =
    R"sql((SELECT DISTINCT j.key
             FROM jsonb_array_elements_text(jsonb_path_query_array({suspension}.condition, '$.**.waitpoint_key')
                    || jsonb_path_query_array({suspension}.condition, '$.**.waitpoints[*]')) AS j(key)))sql";

// In the order in which the condition has them, as FlowFabric's suspending writes them.
constexpr std::string_view kNamesAt =
    R"sql(ARRAY(SELECT j.name #>> '{}'
                  FROM jsonb_path_query({condition},
                         '$.** ? (@.waitpoint_key == $key || @.waitpoints[*] == $key).matcher.ByName',
                         jsonb_build_object('key', {key})) WITH ORDINALITY AS j(name, place)
                 WHERE j.name <> '""'
                 GROUP BY j.name
                 ORDER BY min(j.place)))sql";

constexpr std::string_view kLostKey =
    R"sql((SELECT min(a.key)
             FROM {awaited_keys:{suspension}} a
            WHERE (SELECT true
                     FROM {schema}.ff_waitpoint_pending b
                    WHERE {in_partitions:b} AND {same_execution:b, {waitpoint}}
                      AND b.waitpoint_id <> {waitpoint}.waitpoint_id AND b.state = 'active'
                      AND b.activated_at_ms = {suspension}.suspended_at_ms AND b.waitpoint_key IN ('', a.key)
                    LIMIT 1) IS NULL
           HAVING count(*) = 1 AND min(a.key) <> ''))sql";

}  // namespace

std::vector<Fragment> phrases() {
  return {{"awaited_keys(suspension)", std::string(kAwaitedKeys)},
          {"names_at(condition, key)", std::string(kNamesAt)},
          {"lost_key(waitpoint, suspension)", std::string(kLostKey)}};
}

}  // namespace ff::reconcile::resume_condition
