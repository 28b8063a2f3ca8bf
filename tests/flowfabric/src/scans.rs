//! FlowFabric's own scanners, once.

use ff_backend_postgres::dispatch::{dispatch_completion, DispatchOutcome};
use ff_backend_postgres::reconcilers::{
    attempt_timeout, budget_reset, dependency, edge_cancel_dispatcher, edge_cancel_reconciler, lease_expiry,
    suspension_timeout, ScanReport,
};
use ff_backend_postgres::worker_registry;
use ff_core::backend::ScannerFilter;
use ff_core::engine_backend::ExpirePhase;
use ff_core::partition::{Partition, PartitionFamily};
use serde_json::{json, Value};

use crate::failure::{Answer, Failure};
use crate::request::{missing, Request};
use crate::session::{done, Session};

const UNDISPATCHED: &str = "SELECT event_id FROM ff_completion_event WHERE dispatched_at_ms IS NULL ORDER BY event_id";

fn filter_of(request: &Request) -> ScannerFilter {
    let mut filter = ScannerFilter::new();
    if let Some(namespace) = request.maybe_text("namespace") {
        filter = filter.with_namespace(namespace);
    }
    if let Some(tag) = request.maybe_text("instance_tag") {
        filter = filter.with_instance_tag("cairn.instance_id", tag);
    }
    filter
}

fn partitions_of(session: &Session, request: &Request, of_budgets: bool) -> Vec<i16> {
    if let Some(list) = request.get("partitions").and_then(Value::as_array) {
        return list.iter().filter_map(Value::as_i64).filter_map(|key| i16::try_from(key).ok()).collect();
    }
    let count = match of_budgets {
        true => session.partitions.num_budget_partitions,
        false => session.partitions.num_flow_partitions,
    };
    (0..count).filter_map(|key| i16::try_from(key).ok()).collect()
}

/// By partition, or at once for those that know none.
pub async fn scan(session: &mut Session, request: &Request) -> Answer {
    let pool = &session.pool;
    let filter = filter_of(request);
    match request.text("name")? {
        "dependency" => {
            let report = dependency::reconcile_tick(pool, &filter, request.number_or("stale_ms", 0)).await?;
            Ok(json!({"scanned": report.scanned, "processed": report.reconciled}))
        }
        "edge_cancel_dispatcher" => {
            let report = edge_cancel_dispatcher::dispatcher_tick(pool, &filter).await?;
            Ok(json!({"processed": report.dispatched, "orphaned": report.orphaned}))
        }
        "edge_cancel_reconciler" => {
            let report = edge_cancel_reconciler::reconciler_tick(pool, &filter).await?;
            Ok(json!({"processed": report.sremmed_stale + report.completed_drain, "no_op": report.no_op}))
        }
        "dispatch_completion" => dispatch_all(session).await,
        name @ ("delayed_promoter" | "execution_deadline" | "close_waitpoint") => of_one(session, request, name).await,
        name => by_partition(session, request, name, &filter).await,
    }
}

async fn by_partition(session: &Session, request: &Request, name: &str, filter: &ScannerFilter) -> Answer {
    let pool = &session.pool;
    let (mut processed, mut errors) = (0, 0);
    for key in partitions_of(session, request, name == "budget_reset") {
        let report: ScanReport = match name {
            "attempt_timeout" => attempt_timeout::scan_tick(pool, key, filter).await?,
            "lease_expiry" => lease_expiry::scan_tick(pool, key, filter).await?,
            "suspension_timeout" => suspension_timeout::scan_tick(pool, key, filter).await?,
            "budget_reset" => budget_reset::scan_tick(pool, key).await?,
            "worker_registry" => worker_registry::ttl_sweep_tick(pool, key).await?,
            _ => return Err(missing("name", "one of FlowFabric's scanners")),
        };
        processed += report.processed;
        errors += report.errors;
    }
    Ok(json!({"processed": processed, "errors": errors}))
}

/// What FlowFabric does on PostgreSQL for an execution that is named, and scans for nowhere.
async fn of_one(session: &Session, request: &Request, name: &str) -> Answer {
    let execution = request.execution("execution")?;
    let partition = Partition { family: PartitionFamily::Execution, index: execution.partition() };
    let now = request.now();
    let backend = &session.backend;
    match name {
        "delayed_promoter" => backend.promote_delayed(partition, &request.lane(), &execution, now).await?,
        "execution_deadline" => {
            backend.expire_execution(partition, &execution, ExpirePhase::ExecutionDeadline, now).await?;
        }
        _ => backend.close_waitpoint(partition, &execution, request.text("waitpoint")?, now).await?,
    }
    done()
}

/// What FlowFabric's server does with each completion that it is told of: those that nobody has dispatched.
async fn dispatch_all(session: &Session) -> Answer {
    let events: Vec<i64> = sqlx::query_scalar(UNDISPATCHED).fetch_all(&session.pool).await.map_err(Failure::from)?;
    let mut advanced = 0;
    for event in events {
        if let DispatchOutcome::Advanced(_) = dispatch_completion(&session.pool, event).await? {
            advanced += 1;
        }
    }
    Ok(json!({"processed": advanced}))
}
