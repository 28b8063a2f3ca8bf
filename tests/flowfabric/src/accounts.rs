//! Budgets, and the registry of workers.

use std::collections::BTreeMap;

use ff_core::backend::UsageDimensions;
use ff_core::contracts::{
    CreateBudgetArgs, HeartbeatWorkerArgs, MarkWorkerDeadArgs, RecordSpendArgs, RegisterWorkerArgs, ReleaseBudgetArgs,
    ReportUsageAdminArgs, ResetBudgetArgs,
};
use ff_core::partition::{budget_partition, PartitionFamily};
use ff_core::types::{BudgetId, LaneId, Namespace, WorkerId, WorkerInstanceId};
use serde_json::{json, Value};

use crate::failure::{Answer, Failure};
use crate::request::{missing, Request};
use crate::session::{done, to_value, Session};
use crate::setup::draw_until;

/// `deltas`: {"dimension": amount, …}.
fn deltas_of(request: &Request) -> Result<BTreeMap<String, u64>, Failure> {
    let object = request.get("deltas").and_then(Value::as_object).ok_or_else(|| missing("deltas", "an object"))?;
    Ok(object.iter().filter_map(|(name, amount)| Some((name.clone(), amount.as_u64()?))).collect())
}

/// `hard` and `soft` limits by dimension: {"tokens": 100}; 0 is none.
pub async fn create_budget(session: &mut Session, request: &Request) -> Answer {
    let budget = match request.maybe_text("budget") {
        Some(_) => request.budget()?,
        None => BudgetId::from_uuid(draw_until(session, request, PartitionFamily::Budget, |session, uuid| {
            budget_partition(&BudgetId::from_uuid(uuid), &session.partitions).index
        })?),
    };
    let limits = |name: &str| request.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
    let (hard, soft) = (limits("hard"), limits("soft"));
    let mut dimensions: Vec<String> = hard.keys().chain(soft.keys()).cloned().collect();
    dimensions.sort();
    dimensions.dedup();
    let limit = |of: &serde_json::Map<String, Value>, name: &String| of.get(name).and_then(Value::as_u64).unwrap_or(0);
    let args = CreateBudgetArgs {
        budget_id: budget.clone(),
        scope_type: request.text_or("scope_type", "flow").to_owned(),
        scope_id: request.text_or("scope_id", "tests").to_owned(),
        enforcement_mode: request.text_or("enforcement_mode", "strict").to_owned(),
        on_hard_limit: "fail".to_owned(),
        on_soft_limit: "warn".to_owned(),
        reset_interval_ms: request.count_or("reset_interval_ms", 0),
        hard_limits: dimensions.iter().map(|name| limit(&hard, name)).collect(),
        soft_limits: dimensions.iter().map(|name| limit(&soft, name)).collect(),
        dimensions,
        now: request.now(),
    };
    session.backend.create_budget(args).await?;
    Ok(json!({
        "budget": budget.to_string(),
        "partition": budget_partition(&budget, &session.partitions).index,
    }))
}

/// By a worker's handle.
pub async fn report_usage(session: &mut Session, request: &Request) -> Answer {
    let mut usage = UsageDimensions::new();
    for (name, amount) in deltas_of(request)? {
        match name.as_str() {
            "input_tokens" => usage.input_tokens = amount,
            "output_tokens" => usage.output_tokens = amount,
            "wall_ms" => usage.wall_ms = Some(amount),
            _ => drop(usage.custom.insert(name, amount)),
        }
    }
    usage.dedup_key = request.maybe_text("dedup_key").map(str::to_owned);
    to_value(session.backend.report_usage(&session.handle(request)?, &request.budget()?, usage).await?)
}

pub async fn report_usage_admin(session: &mut Session, request: &Request) -> Answer {
    let (dimensions, deltas) = deltas_of(request)?.into_iter().unzip();
    let args = ReportUsageAdminArgs::new(dimensions, deltas, request.now());
    to_value(session.backend.report_usage_admin(&request.budget()?, args).await?)
}

pub async fn record_spend(session: &mut Session, request: &Request) -> Answer {
    let key = match request.maybe_text("key") {
        Some(key) => key.to_owned(),
        None => session.draw().to_string(),
    };
    let args = RecordSpendArgs::new(request.budget()?, request.execution("execution")?, deltas_of(request)?, key);
    to_value(session.backend.record_spend(args).await?)
}

pub async fn release_budget(session: &mut Session, request: &Request) -> Answer {
    let args = ReleaseBudgetArgs::new(request.budget()?, request.execution("execution")?);
    session.backend.release_budget(args).await?;
    done()
}

pub async fn reset_budget(session: &mut Session, request: &Request) -> Answer {
    let args = ResetBudgetArgs { budget_id: request.budget()?, now: request.now() };
    to_value(session.backend.reset_budget(args).await?)
}

pub async fn budget_status(session: &mut Session, request: &Request) -> Answer {
    to_value(session.backend.get_budget_status(&request.budget()?).await?)
}

fn namespace_of(request: &Request) -> Namespace {
    Namespace::new(request.text_or("namespace", "default"))
}

pub async fn register_worker(session: &mut Session, request: &Request) -> Answer {
    let lanes = match request.texts("lanes") {
        none if none.is_empty() => vec![request.lane().as_str().to_owned()],
        some => some,
    };
    let args = RegisterWorkerArgs::new(
        WorkerId::new(request.worker()),
        WorkerInstanceId::new(request.instance()),
        lanes.into_iter().map(LaneId::new).collect(),
        request.texts("capabilities").into_iter().collect(),
        request.ttl_ms(),
        namespace_of(request),
        request.now(),
    );
    let outcome = session.backend.register_worker(args).await?;
    Ok(json!({"outcome": format!("{outcome:?}")}))
}

pub async fn heartbeat_worker(session: &mut Session, request: &Request) -> Answer {
    let args =
        HeartbeatWorkerArgs::new(WorkerInstanceId::new(request.instance()), namespace_of(request), request.now());
    let outcome = session.backend.heartbeat_worker(args).await?;
    Ok(json!({"outcome": format!("{outcome:?}")}))
}

pub async fn mark_worker_dead(session: &mut Session, request: &Request) -> Answer {
    let args = MarkWorkerDeadArgs::new(
        WorkerInstanceId::new(request.instance()),
        namespace_of(request),
        request.text_or("reason", "operator").to_owned(),
        request.now(),
    );
    let outcome = session.backend.mark_worker_dead(args).await?;
    Ok(json!({"outcome": format!("{outcome:?}")}))
}
