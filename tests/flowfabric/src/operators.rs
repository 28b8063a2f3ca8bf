//! What operators do, and reclaiming.

use ff_core::contracts::{
    CancelExecutionArgs, ChangePriorityArgs, IssueReclaimGrantArgs, IssueReclaimGrantOutcome, ReclaimExecutionArgs,
    ReclaimExecutionOutcome, ReplayExecutionArgs, RevokeLeaseArgs,
};
use ff_core::types::{AttemptId, CancelSource, LeaseId};
use serde_json::{json, Value};

use crate::failure::{Answer, Failure};
use crate::request::Request;
use crate::session::{to_value, Session};

/// As an operator; with the lease that the request names, as its holder.
pub async fn cancel_execution(session: &mut Session, request: &Request) -> Answer {
    let lease = match request.maybe_text("handle") {
        Some(_) => Some(session.lease(request)?),
        None => None,
    };
    let execution = match &lease {
        Some(lease) => lease.execution_id.clone(),
        None => request.execution("execution")?,
    };
    let args: CancelExecutionArgs = request.arguments(json!({
        "execution_id": execution.as_str(),
        "reason": "operator",
        "source": if lease.is_some() { CancelSource::LeaseHolder } else { CancelSource::OperatorOverride },
        "lease_id": lease.as_ref().map(|lease| lease.lease_id.clone()),
        "lease_epoch": lease.as_ref().map(|lease| lease.lease_epoch),
        "attempt_id": lease.as_ref().map(|lease| lease.attempt_id.clone()),
        "now": request.now().0,
    }))?;
    to_value(session.backend.cancel_execution(args).await?)
}

pub async fn revoke_lease(session: &mut Session, request: &Request) -> Answer {
    let args: RevokeLeaseArgs = request.arguments(json!({
        "execution_id": request.execution("execution")?.as_str(),
        "expected_lease_id": null,
        "worker_instance_id": request.instance(),
        "reason": "operator",
    }))?;
    to_value(session.backend.revoke_lease(args).await?)
}

pub async fn change_priority(session: &mut Session, request: &Request) -> Answer {
    let args: ChangePriorityArgs = request.arguments(json!({
        "execution_id": request.execution("execution")?.as_str(),
        "new_priority": request.number("priority")?,
        "lane_id": request.lane().as_str(),
        "now": request.now().0,
    }))?;
    to_value(session.backend.change_priority(args).await?)
}

pub async fn replay_execution(session: &mut Session, request: &Request) -> Answer {
    let args = ReplayExecutionArgs { execution_id: request.execution("execution")?, now: request.now() };
    to_value(session.backend.replay_execution(args).await?)
}

pub async fn issue_reclaim_grant(session: &mut Session, request: &Request) -> Answer {
    let args: IssueReclaimGrantArgs = request.arguments(json!({
        "execution_id": request.execution("execution")?.as_str(),
        "worker_id": request.worker(),
        "worker_instance_id": request.instance(),
        "lane_id": request.lane().as_str(),
        "grant_ttl_ms": 60_000,
        "now": request.now().0,
    }))?;
    Ok(match session.backend.issue_reclaim_grant(args).await? {
        IssueReclaimGrantOutcome::Granted(grant) => {
            json!({"outcome": "granted", "grant": grant.grant_key, "expires_at_ms": grant.expires_at_ms})
        }
        IssueReclaimGrantOutcome::NotReclaimable { detail, .. } => {
            json!({"outcome": "not_reclaimable", "detail": detail})
        }
        IssueReclaimGrantOutcome::ReclaimCapExceeded { reclaim_count, .. } => {
            json!({"outcome": "cap_exceeded", "count": reclaim_count})
        }
        _ => json!({"outcome": "unknown"}),
    })
}

pub async fn reclaim_execution(session: &mut Session, request: &Request) -> Answer {
    let execution = request.execution("execution")?;
    let attempt = session.attempt(request, &execution).await?;
    let args: ReclaimExecutionArgs = request.arguments(json!({
        "execution_id": execution.as_str(),
        "worker_id": request.worker(),
        "worker_instance_id": request.instance(),
        "lane_id": request.lane().as_str(),
        "lease_id": LeaseId::new(),
        "lease_ttl_ms": request.ttl_ms(),
        "attempt_id": AttemptId::new(),
        "max_reclaim_count": null,
        "old_worker_instance_id": request.text_or("old_instance", "worker"),
        "current_attempt_index": attempt,
    }))?;
    match session.backend.reclaim_execution(args).await? {
        ReclaimExecutionOutcome::Claimed(handle) => {
            let mut told = session.hold_handle(request, &handle)?;
            told["outcome"] = Value::from("claimed");
            Ok(told)
        }
        ReclaimExecutionOutcome::NotReclaimable { detail, .. } => {
            Ok(json!({"outcome": "not_reclaimable", "detail": detail}))
        }
        ReclaimExecutionOutcome::ReclaimCapExceeded { reclaim_count, .. } => {
            Ok(json!({"outcome": "cap_exceeded", "count": reclaim_count}))
        }
        ReclaimExecutionOutcome::GrantNotFound { .. } => Ok(json!({"outcome": "grant_not_found"})),
        _ => Err(Failure::Usage("reclaim_execution: an unknown outcome".to_owned())),
    }
}
