//! Making a database, and executions in it.

use ff_backend_postgres::apply_migrations;
use ff_core::contracts::{AddExecutionToFlowArgs, CreateExecutionArgs, SeedWaitpointHmacSecretArgs};
use ff_core::partition::{flow_partition, PartitionFamily};
use ff_core::types::{ExecutionId, FlowId};
use serde_json::{json, Value};

use crate::failure::{Answer, Failure};
use crate::request::Request;
use crate::session::{done, Session};

const MAKE_RUNNABLE: &str = "
UPDATE ff_exec_core SET lifecycle_phase = 'runnable', attempt_state = $3
 WHERE partition_key = $1 AND execution_id = $2 AND lifecycle_phase = 'submitted'";

pub async fn migrate(session: &mut Session) -> Answer {
    apply_migrations(&session.pool).await.map_err(|error| Failure::Usage(format!("migrate: {error}")))?;
    done()
}

pub async fn seed_secret(session: &mut Session, request: &Request) -> Answer {
    let secret = request.text_or("secret", "5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f");
    let seeded = session
        .backend
        .seed_waitpoint_hmac_secret(SeedWaitpointHmacSecretArgs::new(request.text_or("kid", "k1"), secret))
        .await?;
    Ok(json!({"outcome": format!("{seeded:?}")}))
}

/// An id in the partition that is asked for: the flow's, where there is one.
fn new_execution_id(session: &mut Session, request: &Request, flow: Option<&FlowId>) -> Result<ExecutionId, Failure> {
    if request.maybe_text("execution").is_some() {
        return request.execution("execution");
    }
    let partition = match flow {
        Some(flow) => flow_partition(flow, &session.partitions).index,
        None => request.partition(&session.partitions)?.unwrap_or(0),
    };
    ExecutionId::parse(&format!("{{fp:{partition}}}:{}", session.draw()))
        .map_err(|error| Failure::Usage(error.to_string()))
}

/// The policy as given, or one with `max_retries` and, with that, `backoff_ms`.
fn policy_of(request: &Request) -> Value {
    if let Some(policy) = request.get("policy") {
        return policy.clone();
    }
    let Some(max_retries) = request.maybe_number("max_retries") else { return Value::Null };
    let delay_ms = request.number_or("backoff_ms", 1_000);
    json!({"retry_policy": {"max_retries": max_retries, "backoff": {"type": "fixed", "delay_ms": delay_ms}}})
}

pub async fn create_execution(session: &mut Session, request: &Request) -> Answer {
    let flow = request.maybe_text("flow").map(|_| request.flow()).transpose()?;
    let execution = new_execution_id(session, request, flow.as_ref())?;
    let args: CreateExecutionArgs = request.arguments(json!({
        "execution_id": execution.as_str(),
        "namespace": request.text_or("namespace", "default"),
        "lane_id": request.lane().as_str(),
        "execution_kind": request.text_or("kind", "task"),
        "input_payload": request.text_or("payload", "").as_bytes(),
        "priority": request.number_or("priority", 0),
        "creator_identity": request.text_or("creator", "client"),
        "tags": request.get("tags").cloned().unwrap_or_else(|| json!({})),
        "policy": policy_of(request),
        "delay_until": request.moment("delay").map(|at| at.0),
        "execution_deadline_at": request.moment("deadline").map(|at| at.0),
        "partition_id": execution.partition(),
        "now": request.now().0,
    }))?;
    let now = args.now;
    session.backend.create_execution(args).await?;
    if let Some(flow_id) = flow {
        let member = AddExecutionToFlowArgs { flow_id, execution_id: execution.clone(), now };
        session.backend.add_execution_to_flow(member).await?;
    }
    if let Some(state) = request.maybe_text("runnable") {
        change_to_runnable(session, &execution, state).await?;
    }
    Ok(json!({
        "execution": execution.as_str(),
        "partition": execution.partition(),
        "uuid": uuid_of(&execution),
    }))
}

/// FlowFabric has no operation for this on PostgreSQL.
pub async fn make_runnable(session: &mut Session, request: &Request) -> Answer {
    let execution = request.execution("execution")?;
    let changed = change_to_runnable(session, &execution, request.text_or("attempt_state", "pending")).await?;
    Ok(json!({"changed": changed}))
}

async fn change_to_runnable(session: &Session, execution: &ExecutionId, state: &str) -> Result<u64, Failure> {
    let uuid = uuid::Uuid::parse_str(uuid_of(execution)).map_err(|error| Failure::Usage(error.to_string()))?;
    let result = sqlx::query(MAKE_RUNNABLE)
        .bind(i16::try_from(execution.partition()).unwrap_or(-1))
        .bind(uuid)
        .bind(state)
        .execute(&session.pool)
        .await?;
    Ok(result.rows_affected())
}

pub fn uuid_of(execution: &ExecutionId) -> &str {
    execution.as_str().rsplit(':').next().unwrap_or_default()
}

/// Draws identifiers until one lies in `partition`: a flow's or a budget's follows from its uuid.
pub fn draw_until(
    session: &mut Session,
    request: &Request,
    family: PartitionFamily,
    partition_of: impl Fn(&Session, uuid::Uuid) -> u16,
) -> Result<uuid::Uuid, Failure> {
    let Some(wanted) = request.maybe_number("partition") else { return Ok(session.draw()) };
    if wanted < 0 || wanted >= i64::from(session.partitions.count_for(family)) {
        return Err(Failure::Usage(format!("partition: there is no {wanted}")));
    }
    loop {
        let uuid = session.draw();
        if i64::from(partition_of(session, uuid)) == wanted {
            return Ok(uuid);
        }
    }
}

pub async fn read_execution(session: &mut Session, request: &Request) -> Answer {
    let execution = request.execution("execution")?;
    let info = session.backend.read_execution_info(&execution).await?;
    crate::session::to_value(info)
}
