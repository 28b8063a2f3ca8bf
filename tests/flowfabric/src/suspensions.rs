//! Suspending, waitpoints and signals.

use std::time::Duration;

use ff_core::contracts::{
    DeliverApprovalSignalArgs, DeliverSignalArgs, ResumeExecutionArgs, ResumePolicy, SuspendArgs, SuspendOutcome,
    SuspendOutcomeDetails,
};
use ff_core::partition::{Partition, PartitionFamily, PartitionKey};
use ff_core::types::{ExecutionId, WaitpointId};
use serde_json::{json, Value};

use crate::failure::{Answer, Failure};
use crate::request::{missing, parse, Request};
use crate::session::{fence_of, to_value, Session};

pub async fn create_waitpoint(session: &mut Session, request: &Request) -> Answer {
    let handle = session.handle(request)?;
    let key = request.text_or("key", "wait");
    let expires_in = Duration::from_millis(request.count_or("expires_in_ms", 60_000));
    let waitpoint = session.backend.create_waitpoint(&handle, key, expires_in).await?;
    Ok(json!({
        "waitpoint": waitpoint.waitpoint_id.to_string(),
        "key": key,
        "token": waitpoint.hmac_token.as_str(),
    }))
}

/// `waitpoints`: a list of {"key"} for fresh ones and {"pending": id, "key"}; one fresh one when there is no list.
fn bindings_of(session: &mut Session, request: &Request) -> Result<(Vec<Value>, Vec<String>), Failure> {
    let asked = match request.get("waitpoints").and_then(Value::as_array) {
        Some(list) => list.clone(),
        None => vec![json!({"key": request.text_or("key", "wait")})],
    };
    let mut bindings = Vec::new();
    let mut keys = Vec::new();
    for one in asked {
        let key = one.get("key").and_then(Value::as_str).unwrap_or("wait").to_owned();
        bindings.push(match one.get("pending") {
            Some(id) => json!({"UsePending": {"waitpoint_id": id}}),
            None => json!({"Fresh": {"waitpoint_id": session.draw(), "waitpoint_key": key}}),
        });
        keys.push(key);
    }
    Ok((bindings, keys))
}

/// Resumed by a signal called `signal`, or by any, at the only waitpoint; with several, by one at each.
fn condition_of(request: &Request, keys: &[String]) -> Value {
    if let Some(condition) = request.get("condition") {
        return condition.clone();
    }
    let matcher = match request.maybe_text("signal") {
        Some(name) => json!({"ByName": name}),
        None => json!("Wildcard"),
    };
    let single = |key: &String| json!({"Single": {"waitpoint_key": key, "matcher": matcher}});
    match keys {
        [only] => single(only),
        several => {
            let members: Vec<Value> = several.iter().map(single).collect();
            json!({"Composite": {"kind": "AllOf", "members": members}})
        }
    }
}

fn behavior_of(request: &Request) -> Result<&'static str, Failure> {
    Ok(match request.text_or("timeout_behavior", "fail") {
        "fail" => "Fail",
        "cancel" => "Cancel",
        "expire" => "Expire",
        "escalate" => "Escalate",
        "auto_resume_with_timeout_signal" => "AutoResumeWithTimeoutSignal",
        _ => return Err(missing("timeout_behavior", "one of the five words of the schema")),
    })
}

/// By its handle, or typed (by execution and fence) with `typed`.
pub async fn suspend(session: &mut Session, request: &Request) -> Answer {
    let (bindings, keys) = bindings_of(session, request)?;
    let args: SuspendArgs = parse(json!({
        "suspension_id": session.draw(),
        "waitpoints": bindings,
        "resume_condition": condition_of(request, &keys),
        "resume_policy": ResumePolicy::normal(),
        "reason_code": "WaitingForSignal",
        "requested_by": "Worker",
        "timeout_at": request.moment("timeout").map(|at| at.0),
        "timeout_behavior": behavior_of(request)?,
        "now": request.now().0,
        "idempotency_key": request.get("idempotency_key"),
    }))?;
    let outcome = if request.flag("typed") {
        let lease = session.lease(request)?;
        session.backend.suspend_by_triple(lease.execution_id.clone(), fence_of(&lease), args).await?
    } else {
        session.backend.suspend(&session.handle(request)?, args).await?
    };
    match outcome {
        SuspendOutcome::Suspended { details, handle } => {
            if let Some(name) = request.maybe_text("as").or(request.maybe_text("handle")) {
                session.keep(name, handle);
            }
            Ok(told("suspended", &details))
        }
        SuspendOutcome::AlreadySatisfied { details } => Ok(told("already_satisfied", &details)),
        _ => Err(Failure::Usage("suspend: an unknown outcome".to_owned())),
    }
}

fn told(outcome: &str, details: &SuspendOutcomeDetails) -> Value {
    let mut waitpoints = vec![json!({
        "waitpoint": details.waitpoint_id.to_string(),
        "key": details.waitpoint_key,
        "token": details.waitpoint_token.as_str(),
    })];
    waitpoints.extend(details.additional_waitpoints.iter().map(|more| {
        json!({
            "waitpoint": more.waitpoint_id.to_string(),
            "key": more.waitpoint_key,
            "token": more.waitpoint_token.as_str(),
        })
    }));
    json!({"outcome": outcome, "suspension": details.suspension_id.to_string(), "waitpoints": waitpoints})
}

fn waitpoint_of(request: &Request) -> Result<WaitpointId, Failure> {
    WaitpointId::parse(request.text("waitpoint")?).map_err(|error| Failure::Usage(format!("waitpoint: {error}")))
}

/// What was given, or what the waitpoint's row says. A waitpoint that is gone has none.
async fn token_of(session: &Session, request: &Request, execution: &ExecutionId) -> Result<String, Failure> {
    if let Some(token) = request.maybe_text("token") {
        return Ok(token.to_owned());
    }
    let partition = Partition { family: PartitionFamily::Execution, index: execution.partition() };
    let waitpoint = waitpoint_of(request)?;
    let token = session.backend.read_waitpoint_token(PartitionKey::from(&partition), &waitpoint).await?;
    Ok(token.unwrap_or_else(|| "k1:0000".to_owned()))
}

pub async fn deliver_signal(session: &mut Session, request: &Request) -> Answer {
    let execution = request.execution("execution")?;
    let token = token_of(session, request, &execution).await?;
    let args: DeliverSignalArgs = request.arguments(json!({
        "execution_id": execution.as_str(),
        "waitpoint_id": waitpoint_of(request)?,
        "signal_id": session.draw(),
        "signal_name": request.text_or("signal", "go"),
        "signal_category": "user",
        "source_type": "client",
        "source_identity": request.text_or("source", "client"),
        "idempotency_key": null,
        "target_scope": "execution",
        "waitpoint_token": token,
        "now": request.now().0,
    }))?;
    to_value(session.backend.deliver_signal(args).await?)
}

pub async fn deliver_approval_signal(session: &mut Session, request: &Request) -> Answer {
    let args = DeliverApprovalSignalArgs::new(
        request.execution("execution")?,
        request.lane(),
        waitpoint_of(request)?,
        request.text_or("signal", "approved"),
        request.text_or("suffix", "1"),
        60_000,
        None,
        None,
    );
    to_value(session.backend.deliver_approval_signal(args).await?)
}

/// An operator's: at once, or `resume_delay_ms` later.
pub async fn resume_execution(session: &mut Session, request: &Request) -> Answer {
    let args: ResumeExecutionArgs = request.arguments(json!({
        "execution_id": request.execution("execution")?.as_str(),
        "trigger_type": "operator",
        "resume_delay_ms": 0,
    }))?;
    to_value(session.backend.resume_execution(args).await?)
}
