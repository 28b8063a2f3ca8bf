//! Every way to a lease.

use std::collections::BTreeSet;

use ff_backend_postgres::claim_grant::write_claim_grant;
use ff_core::backend::{CapabilitySet, ClaimPolicy, HandleKind, ResumeToken};
use ff_core::contracts::{
    ClaimExecutionArgs, ClaimExecutionResult, ClaimForWorkerArgs, ClaimForWorkerOutcome, ClaimResumedExecutionArgs,
    ClaimResumedExecutionResult, IssueGrantAndClaimArgs, ResumeGrant,
};
use ff_core::partition::{Partition, PartitionFamily, PartitionKey};
use ff_core::types::{AttemptId, LeaseId, WorkerId, WorkerInstanceId};
use serde_json::{json, Value};

use crate::failure::{Answer, Failure};
use crate::request::Request;
use crate::session::{new_lease, Session};
use crate::setup::uuid_of;

pub async fn claim(session: &mut Session, request: &Request) -> Answer {
    let policy = ClaimPolicy::new(
        WorkerId::new(request.worker()),
        WorkerInstanceId::new(request.instance()),
        u32::try_from(request.ttl_ms()).unwrap_or(u32::MAX),
        None,
    );
    let capabilities = CapabilitySet::new(request.texts("capabilities"));
    match session.backend.claim(&request.lane(), &capabilities, policy).await? {
        Some(handle) => session.hold_handle(request, &handle),
        None => Ok(Value::Null),
    }
}

/// The row that a scheduler would write: FlowFabric has no operation for it on PostgreSQL.
pub async fn write_grant(session: &mut Session, request: &Request) -> Answer {
    let execution = request.execution("execution")?;
    let uuid = uuid::Uuid::parse_str(uuid_of(&execution)).map_err(|error| Failure::Usage(error.to_string()))?;
    let ttl_ms = request.count_or("grant_ttl_ms", 60_000);
    let now = request.now().0;
    let key = format!("grant:{}", session.draw());
    let mut transaction = session.pool.begin().await?;
    write_claim_grant(
        &mut transaction,
        i16::try_from(execution.partition()).unwrap_or(-1),
        &key,
        uuid,
        request.worker(),
        request.instance(),
        ttl_ms,
        now,
        now.saturating_add_unsigned(ttl_ms),
    )
    .await?;
    transaction.commit().await?;
    Ok(json!({"grant": key}))
}

/// At the index that is given, or at which FlowFabric's SDK would claim.
pub async fn claim_execution(session: &mut Session, request: &Request) -> Answer {
    let execution = request.execution("execution")?;
    let attempt = match request.maybe_attempt()? {
        Some(index) => index,
        None => session.backend.read_total_attempt_count(&execution).await?.0,
    };
    let args: ClaimExecutionArgs = request.arguments(json!({
        "execution_id": execution.as_str(),
        "worker_id": request.worker(),
        "worker_instance_id": request.instance(),
        "lane_id": request.lane().as_str(),
        "lease_id": LeaseId::new(),
        "lease_ttl_ms": request.ttl_ms(),
        "attempt_id": AttemptId::new(),
        "expected_attempt_index": attempt,
        "attempt_policy_json": "",
        "execution_deadline_at": request.moment("deadline").map(|at| at.0),
        "now": request.now().0,
    }))?;
    let ClaimExecutionResult::Claimed(claimed) = session.backend.claim_execution(args).await? else {
        return Err(Failure::Usage("claim_execution: an unknown result".to_owned()));
    };
    // Its own handle is of another backend, and refused by this one.
    let mut lease = new_lease(execution, claimed.attempt_index.0, claimed.lease_epoch.0, request);
    lease.attempt_id = claimed.attempt_id;
    lease.lease_id = claimed.lease_id;
    session.hold(request, lease, HandleKind::Fresh)
}

pub async fn claim_for_worker(session: &mut Session, request: &Request) -> Answer {
    let capabilities: BTreeSet<String> = request.texts("capabilities").into_iter().collect();
    let args = ClaimForWorkerArgs::new(
        request.lane(),
        WorkerId::new(request.worker()),
        WorkerInstanceId::new(request.instance()),
        capabilities,
        request.count_or("grant_ttl_ms", 60_000),
    );
    match session.backend.claim_for_worker(args).await? {
        ClaimForWorkerOutcome::Granted(grant) => {
            Ok(json!({"execution": grant.execution_id.as_str(), "grant": grant.grant_key}))
        }
        _ => Ok(Value::Null),
    }
}

pub async fn issue_grant_and_claim(session: &mut Session, request: &Request) -> Answer {
    let execution = request.execution("execution")?;
    let args = IssueGrantAndClaimArgs::new(execution.clone(), request.lane(), request.ttl_ms());
    let claimed = session.backend.issue_grant_and_claim(args).await?;
    let mut lease = new_lease(execution, claimed.attempt_index.0, claimed.lease_epoch.0, request);
    lease.lease_id = claimed.lease_id;
    session.hold(request, lease, HandleKind::Fresh)
}

pub async fn claim_resumed_execution(session: &mut Session, request: &Request) -> Answer {
    let execution = request.execution("execution")?;
    let attempt = session.attempt(request, &execution).await?;
    let args: ClaimResumedExecutionArgs = request.arguments(json!({
        "execution_id": execution.as_str(),
        "worker_id": request.worker(),
        "worker_instance_id": request.instance(),
        "lane_id": request.lane().as_str(),
        "lease_id": LeaseId::new(),
        "lease_ttl_ms": request.ttl_ms(),
        "current_attempt_index": attempt,
        "now": request.now().0,
    }))?;
    let ClaimResumedExecutionResult::Claimed(claimed) = session.backend.claim_resumed_execution(args).await?;
    let mut lease = new_lease(execution, claimed.attempt_index.0, claimed.lease_epoch.0, request);
    lease.attempt_id = claimed.attempt_id;
    lease.lease_id = claimed.lease_id;
    session.hold(request, lease, HandleKind::Resumed)
}

/// The grant is made up here: FlowFabric has no operation that issues one on PostgreSQL, and looks at none.
pub async fn claim_from_resume_grant(session: &mut Session, request: &Request) -> Answer {
    let execution = request.execution("execution")?;
    let partition = Partition { family: PartitionFamily::Flow, index: execution.partition() };
    let grant = ResumeGrant::new(
        execution,
        PartitionKey::from(&partition),
        format!("resume:{}", session.draw()),
        u64::MAX,
        request.lane(),
    );
    let token = ResumeToken::new(
        grant,
        WorkerId::new(request.worker()),
        WorkerInstanceId::new(request.instance()),
        u32::try_from(request.ttl_ms()).unwrap_or(u32::MAX),
    );
    match session.backend.claim_from_resume_grant(token).await? {
        Some(handle) => session.hold_handle(request, &handle),
        None => Ok(Value::Null),
    }
}

/// A handle as its owner would still have it, without a claim.
pub fn remake_handle(session: &mut Session, request: &Request) -> Answer {
    let lease = session.lease(request)?;
    session.hold(request, lease, HandleKind::Fresh)
}
