//! Flows, their edges, and their ends.

use ff_core::backend::{CancelFlowPolicy, CancelFlowWait};
use ff_core::contracts::{
    AddExecutionToFlowArgs, ApplyDependencyToChildArgs, CancelFlowArgs, CancelFlowHeader, CreateFlowArgs,
    EdgeDependencyPolicy, OnSatisfied, StageDependencyEdgeArgs,
};
use ff_core::partition::{flow_partition, PartitionFamily};
use ff_core::types::{EdgeId, FlowId};
use serde_json::{json, Value};

use crate::failure::{Answer, Failure};
use crate::request::{missing, Request};
use crate::session::{done, to_value, Session};
use crate::setup::draw_until;

const REVISION: &str = "SELECT graph_revision FROM ff_flow_core WHERE partition_key = $1 AND flow_id = $2";

pub async fn create_flow(session: &mut Session, request: &Request) -> Answer {
    let flow = match request.maybe_text("flow") {
        Some(_) => request.flow()?,
        None => FlowId::from_uuid(draw_until(session, request, PartitionFamily::Flow, |session, uuid| {
            flow_partition(&FlowId::from_uuid(uuid), &session.partitions).index
        })?),
    };
    let args: CreateFlowArgs = request.arguments(json!({
        "flow_id": flow,
        "flow_kind": "tests",
        "namespace": request.text_or("namespace", "default"),
        "now": request.now().0,
    }))?;
    session.backend.create_flow(args).await?;
    Ok(json!({"flow": flow.to_string(), "partition": flow_partition(&flow, &session.partitions).index}))
}

pub async fn add_execution_to_flow(session: &mut Session, request: &Request) -> Answer {
    let args = AddExecutionToFlowArgs {
        flow_id: request.flow()?,
        execution_id: request.execution("execution")?,
        now: request.now(),
    };
    to_value(session.backend.add_execution_to_flow(args).await?)
}

async fn revision_of(session: &Session, request: &Request, flow: &FlowId) -> Result<u64, Failure> {
    if let Some(revision) = request.maybe_number("revision") {
        return Ok(u64::try_from(revision).unwrap_or(0));
    }
    let partition = flow_partition(flow, &session.partitions).index;
    let found: Option<i64> = sqlx::query_scalar(REVISION)
        .bind(i16::try_from(partition).unwrap_or(-1))
        .bind(flow.0)
        .fetch_optional(&session.pool)
        .await?;
    Ok(found.and_then(|revision| u64::try_from(revision).ok()).unwrap_or(0))
}

/// Staged, and with `apply` applied, too.
pub async fn stage_edge(session: &mut Session, request: &Request) -> Answer {
    let flow = request.flow()?;
    let edge = match request.maybe_text("edge") {
        Some(_) => edge_of(request)?,
        None => EdgeId::from_uuid(session.draw()),
    };
    let args: StageDependencyEdgeArgs = request.arguments(json!({
        "flow_id": flow,
        "edge_id": edge,
        "upstream_execution_id": request.execution("upstream")?.as_str(),
        "downstream_execution_id": request.execution("downstream")?.as_str(),
        "dependency_kind": "success_only",
        "expected_graph_revision": revision_of(session, request, &flow).await?,
        "now": request.now().0,
    }))?;
    session.backend.stage_dependency_edge(args).await?;
    if request.flag("apply") {
        apply(session, request, &flow, &edge).await?;
    }
    Ok(json!({"edge": edge.to_string()}))
}

fn edge_of(request: &Request) -> Result<EdgeId, Failure> {
    EdgeId::parse(request.text("edge")?).map_err(|error| Failure::Usage(format!("edge: {error}")))
}

pub async fn apply_edge(session: &mut Session, request: &Request) -> Answer {
    let flow = request.flow()?;
    let edge = edge_of(request)?;
    apply(session, request, &flow, &edge).await
}

async fn apply(session: &Session, request: &Request, flow: &FlowId, edge: &EdgeId) -> Answer {
    let args: ApplyDependencyToChildArgs = request.arguments(json!({
        "flow_id": flow,
        "edge_id": edge,
        "upstream_execution_id": request.execution("upstream")?.as_str(),
        "downstream_execution_id": request.execution("downstream")?.as_str(),
        "graph_revision": revision_of(session, request, flow).await?,
        "now": request.now().0,
    }))?;
    to_value(session.backend.apply_dependency_to_child(args).await?)
}

/// `policy`: all_of, any_of or quorum with `k`; `on_satisfied`: cancel_remaining or let_run. Before any edge is applied.
pub async fn set_edge_policy(session: &mut Session, request: &Request) -> Answer {
    let on_satisfied = match request.text_or("on_satisfied", "cancel_remaining") {
        "cancel_remaining" => OnSatisfied::cancel_remaining(),
        "let_run" => OnSatisfied::let_run(),
        _ => return Err(missing("on_satisfied", "cancel_remaining or let_run")),
    };
    let policy = match request.text("policy")? {
        "all_of" => EdgeDependencyPolicy::all_of(),
        "any_of" => EdgeDependencyPolicy::any_of(on_satisfied),
        "quorum" => EdgeDependencyPolicy::quorum(u32::try_from(request.number("k")?).unwrap_or(0), on_satisfied),
        _ => return Err(missing("policy", "all_of, any_of or quorum")),
    };
    let set =
        session.backend.set_edge_group_policy(&request.flow()?, &request.execution("downstream")?, policy).await?;
    to_value(set)
}

pub async fn cancel_flow(session: &mut Session, request: &Request) -> Answer {
    let policy = match request.text_or("policy", "cancel_all") {
        "flow_only" => CancelFlowPolicy::FlowOnly,
        "cancel_all" => CancelFlowPolicy::CancelAll,
        "cancel_pending" => CancelFlowPolicy::CancelPending,
        _ => return Err(missing("policy", "flow_only, cancel_all or cancel_pending")),
    };
    to_value(session.backend.cancel_flow(&request.flow()?, policy, CancelFlowWait::NoWait).await?)
}

pub async fn cancel_flow_header(session: &mut Session, request: &Request) -> Answer {
    let args: CancelFlowArgs = request.arguments(json!({
        "flow_id": request.flow()?,
        "reason": "operator",
        "cancellation_policy": request.text_or("policy", "cancel_all"),
        "now": request.now().0,
    }))?;
    let (outcome, members) = match session.backend.cancel_flow_header(args).await? {
        CancelFlowHeader::Cancelled { member_execution_ids, .. } => ("cancelled", member_execution_ids),
        CancelFlowHeader::AlreadyTerminal { member_execution_ids, .. } => ("already_terminal", member_execution_ids),
        _ => ("unknown", Vec::new()),
    };
    Ok(json!({"outcome": outcome, "members": members}))
}

pub async fn ack_cancel_member(session: &mut Session, request: &Request) -> Answer {
    session.backend.ack_cancel_member(&request.flow()?, &request.execution("execution")?).await?;
    done()
}

/// What FlowFabric says of the flow, as far as counters go.
pub async fn describe_flow(session: &mut Session, request: &Request) -> Answer {
    let Some(flow) = session.backend.describe_flow(&request.flow()?).await? else { return Ok(Value::Null) };
    Ok(json!({
        "state": flow.public_flow_state,
        "revision": flow.graph_revision,
        "nodes": flow.node_count,
        "edges": flow.edge_count,
    }))
}
