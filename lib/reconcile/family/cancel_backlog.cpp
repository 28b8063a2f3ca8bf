// cancel_backlog: what the cancel of a flow's header left undone is done.
//
// Rows     ff_cancel_backlog_member, `grace` after the cancel was asked for (or grace_until_ms, where that is later): a
//          server acknowledges a member soon, and only under the policy cancel_all. A companion takes rows of
//          ff_cancel_backlog that have no member left, and another one what a cancel has left without any row
//          (cancelled_leases). The filter is matched on the member.
// Changes  A member that the header cancelled, or under cancel_all one that has not ended, is cancelled for good: core,
//          leases with an event each, epoch + 1, suspension, waitpoints, one completion event where nobody was told.
//          Under another policy one whose lease holds is left to its worker (its row stays), and one that its worker has
//          revived goes on (member_left); what a late signal has revived is cancelled. What an operator has replayed since
//          the cancel goes on under every policy. A member row is deleted with what becomes of its member; with one that
//          is no execution of this partition (malformed) nothing else happens.
// Others   Workers complete, renew and retry; signals revive; the server acknowledges (its SERIALIZABLE transaction fails
//          by ours, tries again and finds nothing); completion_repair tells the same end, under the same lock and mark.
//          A member of which anybody holds anything stays with its row until the next tick.
// Repeat   The member's row is gone afterwards, and what is cancelled has its event.

#include "reconcile/family/cancel_for_good.hpp"
#include "reconcile/family/cancelled_leases.hpp"
#include "reconcile/family/ending.hpp"
#include "reconcile/family/registry.hpp"
#include "reconcile/family/replay.hpp"
#include "reconcile/with.hpp"

namespace ff::reconcile {
namespace {

// A page must not read, or sort, all members of a partition in which large flows were cancelled. So they come stretch by
// stretch along their key, and the page ends as soon as it is full: a stretch is a 256th of a large flow, by the first
// digits of the uuid, or a whole small one, and falls due with the cancel. A member whose worker may go on is not shown
// until its lease has lapsed. Where a partition has few members, each is a stretch, which falls due when its worker may no
// longer go on, and is seen coming.
//
// The order is that of the join: its outer side is sorted, its inner side cannot be looked up without it. Of the rows that
// fall due together with the last one of a page, the next one is in the same stretch or behind it: so far does the rule
// for `along` hold, and no further is {in_page} asked.
//
// Where no filter asks, the cores of a large flow are not read for each page. Without the barriers the name of a member
// would be taken apart, and its leases looked up, wherever a page names the moment.
constexpr std::string_view kScan = R"sql(
  SELECT s.partition_key, s.flow_id, s.stretch, m.execution_id AS member, named.execution_id, s.due_at_ms
    FROM (
      SELECT mine.partition_key, b.flow_id, b.lets_finish, part.*
        FROM unnest({partitions}) AS mine(partition_key)
       CROSS JOIN LATERAL (SELECT {more_than:{few}, f.partition_key = mine.partition_key} AS are_many OFFSET 0) members
       CROSS JOIN LATERAL (
         SELECT flow.*, {lets_finish:flow} AS lets_finish,
                {more_than:{few}, f.partition_key = flow.partition_key AND f.flow_id = flow.flow_id} AS is_large
           FROM {schema}.ff_cancel_backlog flow
          WHERE {in_partitions:flow} AND flow.partition_key = ANY(ARRAY[mine.partition_key])
         OFFSET 0) b
       CROSS JOIN LATERAL (
         SELECT {whole_flow} AS stretch, one.execution_id AS first_member, one.execution_id AS last_member,
                NULL AS next_stretch, true AS is_exact, due.due_at_ms
           FROM {schema}.ff_cancel_backlog_member one
          CROSS JOIN LATERAL (SELECT one.partition_key, {execution_of:one} AS execution_id OFFSET 0) named
          CROSS JOIN LATERAL (SELECT greatest({asked_at:b}, {may_finish_until:b, named}) AS due_at_ms OFFSET 0) due
          WHERE NOT members.are_many AND {in_partitions:one} AND one.partition_key = b.partition_key
            AND one.flow_id = b.flow_id
          UNION ALL
         SELECT {whole_flow}, '', {last_member:b}, NULL, false, {asked_at:b}
          WHERE members.are_many AND NOT b.is_large
          UNION ALL
         SELECT stretch.n, stretch.beginning, coalesce(stretch.next_one, {last_member:b}), stretch.next_one, false, {asked_at:b}
           FROM ({stretches:b}) stretch
          WHERE members.are_many AND b.is_large) part
       WHERE {in_page:part} OR part.due_at_ms > {page_from}
       ORDER BY part.due_at_ms, part.stretch, b.flow_id
    ) s
   CROSS JOIN LATERAL (
     SELECT m.partition_key, m.execution_id
       FROM {schema}.ff_cancel_backlog_member m
      WHERE {in_partitions:m} AND m.partition_key = s.partition_key AND m.flow_id = s.flow_id
        AND m.execution_id >= s.first_member AND m.execution_id <= s.last_member
        AND (s.next_stretch IS NULL OR m.execution_id < s.next_stretch)
     OFFSET 0) m
   CROSS JOIN LATERAL (SELECT m.partition_key, {execution_of:m} AS execution_id OFFSET 0) named
   WHERE (s.is_exact OR coalesce({may_finish_until:s, named} <= (SELECT due_ms FROM clock), true))
     AND ({no_filter} OR (SELECT {filter:c} FROM {core_of:named} c)))sql";

// The members of a flow are carried along, so that no relation is joined with the keys.
constexpr std::string_view kAct = R"sql(
backlog AS MATERIALIZED (
  SELECT b.*, {lets_finish:b} AS lets_finish, flow.members, flow.stretches
    FROM clock, (SELECT partition_key, flow_id, array_agg(member) AS members, array_agg(stretch) AS stretches
                   FROM key GROUP BY partition_key, flow_id) flow
    JOIN {schema}.ff_cancel_backlog b ON b.partition_key = flow.partition_key AND b.flow_id = flow.flow_id
   WHERE {in_partitions:b} AND {asked_at:b} + 0 <= clock.due_ms
     AND {in_sight:ff_flow_core, ff_attempt, ff_suspension_current, ff_completion_event}
     FOR UPDATE OF b SKIP LOCKED
),
member AS MATERIALIZED (
  SELECT m.partition_key, m.flow_id, wanted.stretch, m.execution_id AS member, {execution_of:m} AS execution_id,
         b.reason, b.lets_finish, b.requested_at_ms, {asked_at:b} AS due_at_ms
    FROM backlog b
   CROSS JOIN LATERAL unnest(b.members, b.stretches) AS wanted(member, stretch)
    JOIN {schema}.ff_cancel_backlog_member m ON m.partition_key = b.partition_key AND m.flow_id = b.flow_id
                                            AND m.execution_id = wanted.member
   WHERE {in_partitions:m}
     FOR UPDATE OF m SKIP LOCKED
),
-- Two rows may name the same execution: the other one is met again.
once AS MATERIALIZED (
  SELECT DISTINCT ON (partition_key, execution_id) *
    FROM member
   WHERE execution_id IS NOT NULL
   ORDER BY partition_key, execution_id, flow_id, member
),
with_core AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, c.flow_id, c.lifecycle_phase, c.terminal_at_ms, c.raw_fields,
         m.flow_id AS of_flow, m.stretch, m.member, m.reason,
         c.lifecycle_phase = 'cancelled' AND m.lets_finish AS may_finish,
         greatest(m.due_at_ms, {may_finish_until:m, m}) AS due_at_ms,
         CASE WHEN {has_not_ended:c} AND {replayed_at:c} > m.requested_at_ms THEN 'member_left'
              WHEN c.lifecycle_phase = 'terminal' THEN 'member_gone'
              WHEN c.lifecycle_phase = 'cancelled' OR NOT m.lets_finish OR {was_signalled:m, c}
                THEN 'member_cancelled'
              ELSE 'member_left' END AS outcome
    FROM clock, once m
    JOIN {schema}.ff_exec_core c ON {same_execution:c, m}
    {as_seen:c}
   WHERE {in_partitions:c} AND {filter:c} AND greatest(m.due_at_ms, {may_finish_until:m, m}) <= clock.due_ms
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
doomed AS MATERIALIZED (
  SELECT {doomed:c}, c.of_flow, c.stretch, c.member, c.reason, c.may_finish, c.due_at_ms,
         {end_for_good:c}
    FROM clock, with_core c
   WHERE c.outcome = 'member_cancelled'
),
{hold_doomed},
-- A lease as it is under the lock: its worker may have renewed it meanwhile.
cancelling AS MATERIALIZED (
  SELECT e.*
    FROM endable e
   WHERE NOT (e.may_finish AND (e.partition_key, e.execution_id) IN (
                SELECT a.partition_key, a.execution_id FROM doomed_attempt a WHERE a.lease_expires_at_ms >= a.now_ms))
),
{cancel_for_good},
settled AS MATERIALIZED (
  SELECT partition_key, of_flow AS flow_id, stretch, member, execution_id, due_at_ms, 'member_cancelled' AS outcome
    FROM cancelling
   UNION ALL
  SELECT partition_key, of_flow, stretch, member, execution_id, due_at_ms, outcome
    FROM with_core
   WHERE outcome <> 'member_cancelled'
   UNION ALL
  SELECT partition_key, flow_id, stretch, member, execution_id, due_at_ms, 'member_gone'
    FROM once m
   WHERE {no_filter} AND {has_no_core:m}
   UNION ALL
  SELECT partition_key, flow_id, stretch, member, execution_id, due_at_ms, 'malformed'
    FROM member
   WHERE execution_id IS NULL AND {no_filter}
),
member_deleted AS (
  DELETE FROM {schema}.ff_cancel_backlog_member m
   USING settled s
   WHERE {in_partitions:m} AND m.partition_key = s.partition_key AND m.flow_id = s.flow_id
     AND m.execution_id = s.member
),
moved AS (SELECT * FROM settled))sql";

constexpr std::string_view kDoneScan = R"sql(
  SELECT b.partition_key, b.flow_id, {asked_at:b} AS due_at_ms
    FROM {schema}.ff_cancel_backlog b
   WHERE {in_partitions:b} AND NOT {has_members:b})sql";

constexpr std::string_view kDoneAct = R"sql(
done AS MATERIALIZED (
  SELECT b.partition_key, b.flow_id, {asked_at:b} AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_cancel_backlog b ON b.partition_key = key.partition_key AND b.flow_id = key.flow_id
   WHERE {in_partitions:b} AND {asked_at:b} + 0 <= clock.due_ms AND NOT {has_members:b}
     AND {in_sight:ff_cancel_backlog_member}
     FOR UPDATE OF b SKIP LOCKED
),
backlog_deleted AS (
  DELETE FROM {schema}.ff_cancel_backlog b
   USING done d
   WHERE {in_partitions:b} AND b.partition_key = d.partition_key AND b.flow_id = d.flow_id
),
moved AS (SELECT partition_key, flow_id, due_at_ms, 'flow_done' AS outcome FROM done))sql";

// How members are paged through: see kScan.
std::vector<Fragment> of_stretches() {
  return {
      {"few", "250"},
      // "The backlog has more members than that."
      {"more_than(number, which)",
       R"sql((SELECT count(*) > {number}
                   FROM (SELECT FROM {schema}.ff_cancel_backlog_member f
                          WHERE {in_partitions:f} AND {which}
                          LIMIT {number} + 1) few))sql"},
      // Behind all stretches of a large flow, which this one may have been a page before.
      {"whole_flow", "258"},
      // From one of these to the next, in the order of the key, whatever that makes of them; before the first there may
      // be what names no execution.
      {"stretches(backlog)",
       R"sql(SELECT row_number() OVER by_name AS n, of_all.beginning, lead(of_all.beginning) OVER by_name AS next_one
                   FROM (SELECT '' AS beginning
                          UNION ALL
                         SELECT concat('{', 'fp:', {backlog}.partition_key, '}:', lpad(to_hex(digits), 2, '0'))
                           FROM generate_series(0, 255) AS digits) of_all
                 WINDOW by_name AS (ORDER BY of_all.beginning))sql"},
      {"last_member(backlog)",
       R"sql((SELECT l.execution_id
                   FROM {schema}.ff_cancel_backlog_member l
                  WHERE {in_partitions:l} AND l.partition_key = {backlog}.partition_key AND l.flow_id = {backlog}.flow_id
                  ORDER BY l.execution_id DESC
                  LIMIT 1))sql"}};
}

std::vector<Fragment> own_fragments() {
  return with(
      with(of_stretches(), cancel_for_good::fragments()),
      {{"asked_at(backlog)", "greatest({backlog}.requested_at_ms, {backlog}.grace_until_ms)"},
       {"has_members(backlog)",
        R"sql(EXISTS (SELECT FROM {schema}.ff_cancel_backlog_member n
                    WHERE {in_partitions:n} AND n.partition_key = {backlog}.partition_key
                      AND n.flow_id = {backlog}.flow_id))sql"},
       // Null: it does not name an execution of its own partition as FlowFabric does, fp and the number in braces, a
       // colon, the uuid.
       {"execution_of(member)",
        R"sql(CASE WHEN substring({member}.execution_id FROM '^[{]fp:([0-9]+)[}]:') = {member}.partition_key::text
              THEN {uuid:substr({member}.execution_id, 7 + length({member}.partition_key::text))} END)sql"},
       // Less `grace`, which is the time after a cancel and not after a lease: the end of the last lease of a member that
       // the header cancelled under a policy that lets its worker finish. Null, or long ago: nobody is waited for. A lease
       // before all time is no earlier than 1970, or the difference might not fit and fail the scan of everybody else.
       {"may_finish_until(backlog, row)",
        R"sql(CASE WHEN {backlog}.lets_finish
              THEN (SELECT greatest(max(l.lease_expires_at_ms), 0) - {grace}
                      FROM {core_of:{row}} f
                      JOIN {schema}.ff_attempt l ON {same_execution:l, f}
                     WHERE {in_partitions:l} AND f.lifecycle_phase = 'cancelled') END)sql"},
       // "A signal has come since the cancel, and made it go on." The header calls its members cancelled, and only a signal
       // calls them resumable after that; what somebody has claimed since, its event tells. One that answers a suspension
       // which its worker began after the cancel is a part of that work; of several, only the last is known. Not the first of
       // an order: the planner might walk the outbox.
       {"was_signalled(row, core)",
        R"sql((SELECT {core}.public_state = 'resumable' AND since.suspended_at_ms IS NULL
                   OR coalesce((SELECT bool_or(true)
                 FROM {schema}.ff_completion_event v
                WHERE {in_partitions:v} AND {same_execution:v, {row}} AND v.outcome = 'resumable'
                  AND v.occurred_at_ms >= {row}.requested_at_ms
                  AND (since.suspended_at_ms IS NULL OR v.occurred_at_ms < since.suspended_at_ms)), false)
           FROM (SELECT (SELECT s.suspended_at_ms
                           FROM {schema}.ff_suspension_current s
                          WHERE {in_partitions:s} AND {same_execution:s, {row}}
                            AND s.suspended_at_ms >= {row}.requested_at_ms) AS suspended_at_ms) since))sql"}});
}

}  // namespace

Reconciler cancel_backlog() {
  using namespace std::chrono_literals;
  Reconciler members{
      .name = "cancel_backlog",
      .summary = "Cancels for good what a cancel has left, and clears the backlog of cancelled flows.",
      .no_rows = "no cancel of its flow is to be worked off",
      .outcomes = {{"member_cancelled", Effect::ended, "its flow was cancelled"},
                   {"member_left", Effect::deleted,
                    "its worker had revived the member, as the policy allows, or an operator"},
                   {"member_gone", Effect::deleted, "the member had ended by itself, or is no more"},
                   {"malformed", Effect::deleted, "it named no execution of its partition"}},
      .key = {{"stretch", "bigint"}, {"flow_id", "uuid"}, {"member", "text"}},
      .execution_column = "execution_id",
      .scan = kScan,
      .act = kAct,
      .fragments = own_fragments(),
      .privileges =
          ending::privileges(replay::privileges({{"ff_cancel_backlog", "SELECT, UPDATE, DELETE"},
                                                 {"ff_cancel_backlog_member", "SELECT, UPDATE, DELETE"},
                                                 {"ff_flow_core", "SELECT"}})),
      .interval = 2s,
      .batch_size = 500,
      .rows_meet = true,
      .settings = {{.name = "grace",
                    .kind = SettingDecl::Kind::duration,
                    .fallback = Milliseconds{5s}.count(),
                    .least = 0,
                    .most = Milliseconds{24h}.count(),
                    .summary = "how long what was cancelled is left to the server that cancelled it"}},
      .holdoff = [](const Settings& own) { return Milliseconds{*own.at("grace")} + 1ms; },
      .own_parameters = {"grace"},
      .parameters = [](const Settings& own, const Family&) { return pg::Params::of(*own.at("grace")); }};
  Reconciler flows = members;
  members.fragments.push_back({"along", "stretch"});
  flows.outcomes = {{"flow_done", Effect::deleted, "no member of the cancelled flow was left"}};
  flows.key = {{"flow_id", "uuid"}};
  flows.execution_column = {};
  flows.scan = kDoneScan;
  flows.act = kDoneAct;
  flows.forbidden = "{has_members:key}";
  flows.filterable = false;
  flows.interval = 5s;  // behind the members, who had their grace: a backlog is empty within 15 s
  flows.rows_meet = false;
  members.companions = cancelled_leases::pairs(members);
  members.companions.insert(members.companions.begin(), flows);
  return members;
}

}  // namespace ff::reconcile
