//! Quotas: policies, admissions, and those that are given back.

use ff_core::contracts::{CheckAdmissionArgs, CreateQuotaPolicyArgs, ReleaseAdmissionArgs};
use ff_core::partition::{quota_partition, PartitionFamily};
use ff_core::types::QuotaPolicyId;
use serde_json::json;

use crate::failure::Answer;
use crate::request::Request;
use crate::session::{done, to_value, Session};
use crate::setup::draw_until;

pub async fn create_quota_policy(session: &mut Session, request: &Request) -> Answer {
    let quota = match request.maybe_text("quota") {
        Some(_) => request.quota()?,
        None => QuotaPolicyId::from_uuid(draw_until(session, request, PartitionFamily::Quota, |session, uuid| {
            quota_partition(&QuotaPolicyId::from_uuid(uuid), &session.partitions).index
        })?),
    };
    let args = CreateQuotaPolicyArgs {
        quota_policy_id: quota.clone(),
        window_seconds: request.count_or("window_seconds", 60),
        max_requests_per_window: request.count_or("rate_limit", 0),
        max_concurrent: request.count_or("cap", 0),
        now: request.now(),
    };
    session.backend.create_quota_policy(args).await?;
    Ok(json!({
        "quota": quota.to_string(),
        "partition": quota_partition(&quota, &session.partitions).index,
    }))
}

pub async fn check_admission(session: &mut Session, request: &Request) -> Answer {
    let args = CheckAdmissionArgs {
        execution_id: request.execution("execution")?,
        now: request.now(),
        window_seconds: request.count_or("window_seconds", 60),
        rate_limit: request.count_or("rate_limit", 0),
        concurrency_cap: request.count_or("cap", 0),
        jitter_ms: None,
    };
    to_value(session.backend.check_admission(&request.quota()?, "", args).await?)
}

pub async fn release_admission(session: &mut Session, request: &Request) -> Answer {
    let args = ReleaseAdmissionArgs::new(request.quota()?, request.execution("execution")?);
    session.backend.release_admission(args).await?;
    done()
}
