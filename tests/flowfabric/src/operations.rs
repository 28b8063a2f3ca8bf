//! The operations by name. What is in brackets may be left out.

use crate::failure::{Answer, Failure};
use crate::request::Request;
use crate::session::Session;
use crate::{accounts, claims, flows, operators, quotas, scans, setup, suspensions, work};

/// Name and fields of each, in the order of a life.
const OPERATIONS: &[(&str, &str)] = &[
    ("migrate", "FlowFabric's own migrations, on an empty database"),
    ("seed_secret", "[kid] [secret]; once a database, before suspending and granting"),
    ("create_execution", "[execution | flow | partition] [lane] [namespace] [tags] [priority] [payload] [kind] [policy | max_retries [backoff_ms]] [deadline_in_ms | deadline_at_ms] [runnable: an attempt_state]"),
    ("make_runnable", "execution [attempt_state: pending or pending_first_attempt]; an UPDATE of this program's"),
    ("read_execution", "execution"),
    ("claim", "[lane] [worker] [instance] [ttl_ms] [capabilities] [as]; null when there is nothing"),
    ("write_grant", "execution [worker] [instance] [grant_ttl_ms]; a row of this program's"),
    ("claim_execution", "execution [attempt] [lane] [worker] [instance] [ttl_ms] [deadline_in_ms | deadline_at_ms] [as]"),
    ("claim_for_worker", "[lane] [worker] [instance] [capabilities] [grant_ttl_ms]; null when there is nothing"),
    ("issue_grant_and_claim", "execution [lane] [ttl_ms] [as]"),
    ("claim_resumed_execution", "execution [attempt] [lane] [worker] [instance] [ttl_ms] [as]"),
    ("claim_from_resume_grant", "execution [lane] [worker] [instance] [ttl_ms] [as]; null where a lease holds"),
    ("remake_handle", "execution attempt epoch [lane] [instance] [ttl_ms] as"),
    ("renew", "handle"),
    ("progress", "handle [percent] [message]"),
    ("complete", "handle [payload]"),
    ("fail", "handle [class: transient permanent infra_crash timeout cancelled] [message]"),
    ("delay", "handle delay_in_ms | delay_at_ms"),
    ("wait_children", "handle"),
    ("cancel", "handle [reason]"),
    ("renew_lease", "handle | execution attempt epoch; [ttl_ms]"),
    ("complete_execution", "handle | execution attempt epoch; [payload]"),
    ("fail_execution", "handle | execution attempt epoch; [max_retries] [backoff_ms] [message] [category]"),
    ("suspend", "handle [typed] [as] [signal | condition] [key | waitpoints: list of {key} or {pending, key}] [timeout_in_ms | timeout_at_ms] [timeout_behavior]"),
    ("create_waitpoint", "handle [key] [expires_in_ms]"),
    ("deliver_signal", "execution waitpoint [token] [signal] [source] [idempotency_key]"),
    ("deliver_approval_signal", "execution waitpoint [signal] [suffix] [lane]"),
    ("observe_signals", "handle"),
    ("resume_execution", "execution [trigger_type] [resume_delay_ms]"),
    ("create_flow", "[flow | partition] [namespace]"),
    ("add_execution_to_flow", "flow execution"),
    ("stage_edge", "flow upstream downstream [edge] [apply] [dependency_kind] [revision]"),
    ("apply_edge", "flow edge upstream downstream"),
    ("set_edge_policy", "flow downstream policy: all_of any_of quorum [k] [on_satisfied: cancel_remaining let_run]"),
    ("describe_flow", "flow"),
    ("cancel_flow", "flow [policy: flow_only cancel_all cancel_pending]"),
    ("cancel_flow_header", "flow [policy] [reason]"),
    ("ack_cancel_member", "flow execution"),
    ("cancel_execution", "execution | handle; [reason]"),
    ("revoke_lease", "execution [instance] [reason]"),
    ("change_priority", "execution priority [lane]"),
    ("replay_execution", "execution"),
    ("issue_reclaim_grant", "execution [worker] [instance] [lane] [grant_ttl_ms]"),
    ("reclaim_execution", "execution [attempt] [worker] [instance] [old_instance] [lane] [ttl_ms] [max_reclaim_count] [as]"),
    ("create_budget", "[budget | partition] [hard] [soft]: {dimension: limit} [reset_interval_ms]"),
    ("report_usage", "handle budget deltas: {dimension: amount} [dedup_key]"),
    ("report_usage_admin", "budget deltas"),
    ("record_spend", "budget execution deltas [key]"),
    ("release_budget", "budget execution"),
    ("reset_budget", "budget"),
    ("budget_status", "budget"),
    ("create_quota_policy", "[quota | partition] [window_seconds] [rate_limit] [cap]; 0 is none"),
    ("check_admission", "quota execution [window_seconds] [rate_limit] [cap]"),
    ("release_admission", "quota execution"),
    ("register_worker", "[worker] [instance] [lanes] [capabilities] [ttl_ms] [namespace]"),
    ("heartbeat_worker", "[instance] [namespace]"),
    ("mark_worker_dead", "[instance] [namespace] [reason]"),
    ("scan", "name: attempt_timeout lease_expiry suspension_timeout budget_reset worker_registry dependency edge_cancel_dispatcher edge_cancel_reconciler dispatch_completion; [partitions] [namespace] [instance_tag] [stale_ms]; or what looks at one only: delayed_promoter execution_deadline; execution, or close_waitpoint; execution waitpoint"),
];

const USAGE: &str = "usage: ff-flowfabric postgresql://… [--seed N] [--flow-partitions N] [--budget-partitions N]

One JSON object a line: {\"id\": n, \"op\": name, field: value, …}; the answer is {\"id\": n, \"ok\": …} or
{\"id\": n, \"error\": {\"kind\", \"message\"}}. An execution is written {fp:7}:<uuid>; a lease is kept under the name given
as `as`, and `handle` means it later; `now_ms` stands in for this host's clock where FlowFabric asks for one.

";

pub fn help() -> String {
    let mut text = USAGE.to_owned();
    for (name, fields) in OPERATIONS {
        text.push_str(&format!("  {name:<24} {fields}\n"));
    }
    text
}

pub async fn run(session: &mut Session, op: &str, request: &Request) -> Answer {
    match op {
        "migrate" => setup::migrate(session).await,
        "seed_secret" => setup::seed_secret(session, request).await,
        "create_execution" => setup::create_execution(session, request).await,
        "make_runnable" => setup::make_runnable(session, request).await,
        "read_execution" => setup::read_execution(session, request).await,
        "claim" => claims::claim(session, request).await,
        "write_grant" => claims::write_grant(session, request).await,
        "claim_execution" => claims::claim_execution(session, request).await,
        "claim_for_worker" => claims::claim_for_worker(session, request).await,
        "issue_grant_and_claim" => claims::issue_grant_and_claim(session, request).await,
        "claim_resumed_execution" => claims::claim_resumed_execution(session, request).await,
        "claim_from_resume_grant" => claims::claim_from_resume_grant(session, request).await,
        "remake_handle" => claims::remake_handle(session, request),
        "renew" => work::renew(session, request).await,
        "progress" => work::progress(session, request).await,
        "complete" => work::complete(session, request).await,
        "fail" => work::fail(session, request).await,
        "delay" => work::delay(session, request).await,
        "wait_children" => work::wait_children(session, request).await,
        "cancel" => work::cancel(session, request).await,
        "renew_lease" => work::renew_lease(session, request).await,
        "complete_execution" => work::complete_execution(session, request).await,
        "fail_execution" => work::fail_execution(session, request).await,
        "suspend" => suspensions::suspend(session, request).await,
        "create_waitpoint" => suspensions::create_waitpoint(session, request).await,
        "deliver_signal" => suspensions::deliver_signal(session, request).await,
        "deliver_approval_signal" => suspensions::deliver_approval_signal(session, request).await,
        "observe_signals" => work::observe_signals(session, request).await,
        "resume_execution" => suspensions::resume_execution(session, request).await,
        "scan" => scans::scan(session, request).await,
        _ => run_beside(session, op, request).await,
    }
}

// What is not a worker's.
async fn run_beside(session: &mut Session, op: &str, request: &Request) -> Answer {
    match op {
        "create_flow" => flows::create_flow(session, request).await,
        "add_execution_to_flow" => flows::add_execution_to_flow(session, request).await,
        "stage_edge" => flows::stage_edge(session, request).await,
        "apply_edge" => flows::apply_edge(session, request).await,
        "set_edge_policy" => flows::set_edge_policy(session, request).await,
        "describe_flow" => flows::describe_flow(session, request).await,
        "cancel_flow" => flows::cancel_flow(session, request).await,
        "cancel_flow_header" => flows::cancel_flow_header(session, request).await,
        "ack_cancel_member" => flows::ack_cancel_member(session, request).await,
        "cancel_execution" => operators::cancel_execution(session, request).await,
        "revoke_lease" => operators::revoke_lease(session, request).await,
        "change_priority" => operators::change_priority(session, request).await,
        "replay_execution" => operators::replay_execution(session, request).await,
        "issue_reclaim_grant" => operators::issue_reclaim_grant(session, request).await,
        "reclaim_execution" => operators::reclaim_execution(session, request).await,
        "create_budget" => accounts::create_budget(session, request).await,
        "report_usage" => accounts::report_usage(session, request).await,
        "report_usage_admin" => accounts::report_usage_admin(session, request).await,
        "record_spend" => accounts::record_spend(session, request).await,
        "release_budget" => accounts::release_budget(session, request).await,
        "reset_budget" => accounts::reset_budget(session, request).await,
        "budget_status" => accounts::budget_status(session, request).await,
        "create_quota_policy" => quotas::create_quota_policy(session, request).await,
        "check_admission" => quotas::check_admission(session, request).await,
        "release_admission" => quotas::release_admission(session, request).await,
        "register_worker" => accounts::register_worker(session, request).await,
        "heartbeat_worker" => accounts::heartbeat_worker(session, request).await,
        "mark_worker_dead" => accounts::mark_worker_dead(session, request).await,
        _ => Err(Failure::Usage(format!("there is no operation {op}"))),
    }
}
