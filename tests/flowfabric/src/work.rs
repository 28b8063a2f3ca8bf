//! What a worker does with a lease: by its handle, or typed.

use ff_core::backend::{FailOutcome, FailureClass, FailureReason};
use ff_core::contracts::{CompleteExecutionArgs, FailExecutionArgs, RenewLeaseArgs};
use ff_core::types::CancelSource;
use serde_json::{json, Value};

use crate::failure::{Answer, Failure};
use crate::request::{missing, Request};
use crate::session::{done, fence_of, to_value, Session};

pub async fn renew(session: &mut Session, request: &Request) -> Answer {
    let renewed = session.backend.renew(&session.handle(request)?).await?;
    Ok(json!({"expires_at_ms": renewed.expires_at_ms, "epoch": renewed.lease_epoch}))
}

pub async fn progress(session: &mut Session, request: &Request) -> Answer {
    let percent = request.maybe_number("percent").and_then(|value| u8::try_from(value).ok());
    let message = request.maybe_text("message").map(str::to_owned);
    session.backend.progress(&session.handle(request)?, percent, message).await?;
    done()
}

pub async fn complete(session: &mut Session, request: &Request) -> Answer {
    let payload = request.maybe_text("payload").map(|text| text.as_bytes().to_vec());
    session.backend.complete(&session.handle(request)?, payload).await?;
    done()
}

fn class_of(request: &Request) -> Result<FailureClass, Failure> {
    Ok(match request.text_or("class", "transient") {
        "transient" => FailureClass::Transient,
        "permanent" => FailureClass::Permanent,
        "infra_crash" => FailureClass::InfraCrash,
        "timeout" => FailureClass::Timeout,
        "cancelled" => FailureClass::Cancelled,
        _ => return Err(missing("class", "transient, permanent, infra_crash, timeout or cancelled")),
    })
}

pub async fn fail(session: &mut Session, request: &Request) -> Answer {
    let reason = FailureReason::new(request.text_or("message", "failed"));
    let outcome = session.backend.fail(&session.handle(request)?, reason, class_of(request)?).await?;
    Ok(match outcome {
        FailOutcome::RetryScheduled { delay_until } => json!({"outcome": "retry", "delay_until_ms": delay_until.0}),
        FailOutcome::TerminalFailed => json!({"outcome": "failed"}),
    })
}

pub async fn delay(session: &mut Session, request: &Request) -> Answer {
    let until = request.moment("delay").ok_or_else(|| missing("delay_in_ms", "a number"))?;
    session.backend.delay(&session.handle(request)?, until).await?;
    Ok(json!({"delay_until_ms": until.0}))
}

pub async fn wait_children(session: &mut Session, request: &Request) -> Answer {
    session.backend.wait_children(&session.handle(request)?).await?;
    done()
}

pub async fn cancel(session: &mut Session, request: &Request) -> Answer {
    session.backend.cancel(&session.handle(request)?, request.text_or("reason", "by its worker")).await?;
    done()
}

pub async fn renew_lease(session: &mut Session, request: &Request) -> Answer {
    let lease = session.lease(request)?;
    let args: RenewLeaseArgs = request.arguments(json!({
        "execution_id": lease.execution_id.as_str(),
        "attempt_index": lease.attempt_index,
        "fence": fence_of(&lease),
        "lease_ttl_ms": request.ttl_ms(),
    }))?;
    to_value(session.backend.renew_lease(args).await?)
}

pub async fn complete_execution(session: &mut Session, request: &Request) -> Answer {
    let lease = session.lease(request)?;
    let args: CompleteExecutionArgs = request.arguments(json!({
        "execution_id": lease.execution_id.as_str(),
        "fence": fence_of(&lease),
        "attempt_index": lease.attempt_index,
        "result_payload": request.maybe_text("payload").map(str::as_bytes),
        "source": CancelSource::LeaseHolder,
        "now": request.now().0,
    }))?;
    to_value(session.backend.complete_execution(args).await?)
}

/// With `max_retries` left it is retried after `backoff_ms`; without it is the end.
pub async fn fail_execution(session: &mut Session, request: &Request) -> Answer {
    let lease = session.lease(request)?;
    let retry_policy = json!({
        "max_retries": request.number_or("max_retries", 0),
        "backoff": {"type": "fixed", "delay_ms": request.number_or("backoff_ms", 1_000)},
    });
    let args: FailExecutionArgs = request.arguments(json!({
        "execution_id": lease.execution_id.as_str(),
        "fence": fence_of(&lease),
        "attempt_index": lease.attempt_index,
        "failure_reason": request.text_or("message", "failed"),
        "failure_category": request.text_or("category", "transient"),
        "retry_policy_json": retry_policy.to_string(),
        "source": CancelSource::LeaseHolder,
    }))?;
    to_value(session.backend.fail_execution(args).await?)
}

pub async fn observe_signals(session: &mut Session, request: &Request) -> Answer {
    let signals = session.backend.observe_signals(&session.handle(request)?).await?;
    Ok(Value::Array(
        signals
            .iter()
            .map(|signal| {
                json!({
                    "signal_id": signal.signal_id.to_string(),
                    "signal_name": signal.signal_name,
                    "signal_category": signal.signal_category,
                    "source_type": signal.source_type,
                    "source_identity": signal.source_identity,
                    "accepted_at_ms": signal.accepted_at.0,
                })
            })
            .collect(),
    ))
}
