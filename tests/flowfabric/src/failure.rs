//! What an operation can end with when it does not end well.

use ff_core::engine_error::EngineError;
use serde_json::{json, Value};

pub enum Failure {
    /// FlowFabric said no.
    Refused(EngineError),
    /// The request was not understood.
    Usage(String),
    /// A statement of this program's own went wrong.
    Database(sqlx::Error),
}

pub type Answer = Result<Value, Failure>;

impl Failure {
    pub fn to_json(&self) -> Value {
        match self {
            Self::Refused(error) => json!({"kind": kind_of(error), "message": error.to_string()}),
            Self::Usage(message) => json!({"kind": "Usage", "message": message}),
            Self::Database(error) => json!({"kind": "Database", "message": error.to_string()}),
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Refused(error)
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

/// The variants from the outside in, such as "Contention.LeaseConflict" or "NotFound.attempt": no data that differs
/// from one refusal to the next, so that a test can compare it.
fn kind_of(error: &EngineError) -> String {
    match error {
        EngineError::NotFound { entity } => format!("NotFound.{entity}"),
        EngineError::Validation { kind, .. } => format!("Validation.{kind:?}"),
        EngineError::Contention(kind) => format!("Contention.{}", variant(&format!("{kind:?}"))),
        EngineError::Conflict(kind) => format!("Conflict.{}", variant(&format!("{kind:?}"))),
        EngineError::State(kind) => format!("State.{}", variant(&format!("{kind:?}"))),
        EngineError::Bug(kind) => format!("Bug.{}", variant(&format!("{kind:?}"))),
        EngineError::Unavailable { .. } => "Unavailable".to_owned(),
        EngineError::Transport { .. } => "Transport".to_owned(),
        EngineError::Timeout { .. } => "Timeout".to_owned(),
        EngineError::Contextual { source, .. } => kind_of(source),
        other => variant(&format!("{other:?}")).to_owned(),
    }
}

/// The name that a derived Debug text begins with.
fn variant(debug: &str) -> &str {
    debug.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or(debug)
}
