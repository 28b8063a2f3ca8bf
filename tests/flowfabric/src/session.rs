//! One backend over one database, and what callers gave names to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ff_backend_postgres::{pool, PgPool, PostgresBackend, PostgresConnection};
use ff_core::backend::{BackendTag, Handle, HandleKind};
use ff_core::engine_backend::EngineBackend;
use ff_core::engine_error::EngineError;
use ff_core::handle_codec::{self, HandlePayload};
use ff_core::partition::PartitionConfig;
use ff_core::types::{AttemptId, AttemptIndex, ExecutionId, LeaseEpoch, LeaseFence, LeaseId, WorkerInstanceId};
use serde_json::{json, Value};
use uuid::Uuid;

use crate::failure::{Answer, Failure};
use crate::request::{missing, Request};

const IDLE_WITHIN: Duration = Duration::from_secs(10);

pub struct Session {
    pub pool: PgPool,
    pub backend: Arc<dyn EngineBackend>,
    pub partitions: PartitionConfig,
    /// Connections that are never idle: FlowFabric's listener has one.
    kept_busy: u32,
    handles: HashMap<String, Handle>,
    random: Option<u64>,
}

impl Session {
    /// `seed` makes the identifiers that this program draws the same in each run.
    pub async fn open(url: &str, partitions: PartitionConfig, seed: Option<u64>) -> Result<Self, EngineError> {
        let mut connection = PostgresConnection::new(url);
        connection.max_connections = 4;
        let pool = pool::build_pool_from_connection(&connection).await?;
        let backend = PostgresBackend::from_pool(pool.clone(), partitions);
        let mut session = Self { pool, backend, partitions, kept_busy: 0, handles: HashMap::new(), random: seed };
        session.kept_busy = session.settled().await;
        Ok(session)
    }

    fn busy(&self) -> u32 {
        self.pool.size() - u32::try_from(self.pool.num_idle()).unwrap_or(0)
    }

    // The listener connects in a task of its own.
    async fn settled(&self) -> u32 {
        let deadline = Instant::now() + Duration::from_secs(2);
        while self.busy() == 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.busy()
    }

    /// Waits for the rollback that a refused operation leaves to a task: until then its rows stay locked.
    pub async fn idle(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + IDLE_WITHIN;
        while self.busy() > self.kept_busy {
            if Instant::now() > deadline {
                return Err(Failure::Usage("a connection does not become idle".to_owned()));
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        Ok(())
    }

    pub fn draw(&mut self) -> Uuid {
        let Some(state) = &mut self.random else { return Uuid::new_v4() };
        let high = u128::from(split_mix(state));
        let low = u128::from(split_mix(state));
        uuid::Builder::from_random_bytes((high << 64 | low).to_be_bytes()).into_uuid()
    }

    /// Keeps a handle of this lease as `as`, where the caller names it, and answers with the lease.
    pub fn hold(&mut self, request: &Request, lease: HandlePayload, kind: HandleKind) -> Answer {
        if let Some(name) = request.maybe_text("as") {
            self.handles.insert(name.to_owned(), handle_of(&lease, kind));
        }
        Ok(json!({
            "execution": lease.execution_id.as_str(),
            "attempt": lease.attempt_index.0,
            "epoch": lease.lease_epoch.0,
        }))
    }

    /// The same for a handle that FlowFabric made.
    pub fn hold_handle(&mut self, request: &Request, handle: &Handle) -> Answer {
        let lease = lease_in(handle)?;
        self.hold(request, lease, handle.kind)
    }

    pub fn keep(&mut self, name: &str, handle: Handle) {
        self.handles.insert(name.to_owned(), handle);
    }

    pub fn handle(&self, request: &Request) -> Result<Handle, Failure> {
        let name = request.text("handle")?;
        self.handles.get(name).cloned().ok_or_else(|| Failure::Usage(format!("handle: there is no {name}")))
    }

    /// The index that is given, or the one that FlowFabric takes for the current.
    pub async fn attempt(&self, request: &Request, execution: &ExecutionId) -> Result<u32, Failure> {
        match request.maybe_attempt()? {
            Some(index) => Ok(index),
            None => Ok(self.backend.read_current_attempt_index(execution).await?.0),
        }
    }

    /// The lease of the handle that the request names, or the one that it describes.
    pub fn lease(&self, request: &Request) -> Result<HandlePayload, Failure> {
        if request.maybe_text("handle").is_some() {
            return lease_in(&self.handle(request)?);
        }
        Ok(new_lease(
            request.execution("execution")?,
            request.maybe_attempt()?.ok_or_else(|| missing("attempt", "a number"))?,
            u64::try_from(request.number("epoch")?).unwrap_or(0),
            request,
        ))
    }
}

pub fn new_lease(execution: ExecutionId, attempt: u32, epoch: u64, request: &Request) -> HandlePayload {
    HandlePayload::new(
        execution,
        AttemptIndex::new(attempt),
        AttemptId::new(),
        LeaseId::new(),
        LeaseEpoch(epoch),
        request.ttl_ms(),
        request.lane(),
        WorkerInstanceId::new(request.instance()),
    )
}

pub fn fence_of(lease: &HandlePayload) -> LeaseFence {
    LeaseFence {
        lease_id: lease.lease_id.clone(),
        lease_epoch: lease.lease_epoch,
        attempt_id: lease.attempt_id.clone(),
    }
}

fn handle_of(lease: &HandlePayload, kind: HandleKind) -> Handle {
    Handle::new(BackendTag::Postgres, kind, handle_codec::encode(BackendTag::Postgres, lease))
}

fn lease_in(handle: &Handle) -> Result<HandlePayload, Failure> {
    let decoded = handle_codec::decode(&handle.opaque).map_err(EngineError::from)?;
    Ok(decoded.payload)
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub fn to_value<T: serde::Serialize>(result: T) -> Answer {
    serde_json::to_value(result).map_err(|error| Failure::Usage(error.to_string()))
}

pub fn done() -> Answer {
    Ok(Value::Object(serde_json::Map::new()))
}
