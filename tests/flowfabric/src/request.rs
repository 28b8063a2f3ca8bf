//! Reading one request: names of fields, defaults, and what a missing one is called.

use ff_core::partition::PartitionConfig;
use ff_core::types::{BudgetId, ExecutionId, FlowId, LaneId, QuotaPolicyId, TimestampMs};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::failure::Failure;

pub struct Request {
    fields: Map<String, Value>,
}

impl Request {
    pub fn new(fields: Map<String, Value>) -> Self {
        Self { fields }
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    pub fn text(&self, name: &str) -> Result<&str, Failure> {
        self.maybe_text(name).ok_or_else(|| missing(name, "a text"))
    }

    pub fn maybe_text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    pub fn text_or<'a>(&'a self, name: &str, otherwise: &'a str) -> &'a str {
        self.maybe_text(name).unwrap_or(otherwise)
    }

    pub fn number(&self, name: &str) -> Result<i64, Failure> {
        self.maybe_number(name).ok_or_else(|| missing(name, "a number"))
    }

    pub fn maybe_number(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_i64)
    }

    pub fn number_or(&self, name: &str, otherwise: i64) -> i64 {
        self.maybe_number(name).unwrap_or(otherwise)
    }

    pub fn maybe_attempt(&self) -> Result<Option<u32>, Failure> {
        let number = self.maybe_number("attempt");
        number.map(|index| u32::try_from(index).map_err(|_| missing("attempt", "an index"))).transpose()
    }

    pub fn count_or(&self, name: &str, otherwise: u64) -> u64 {
        self.get(name).and_then(Value::as_u64).unwrap_or(otherwise)
    }

    pub fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub fn texts(&self, name: &str) -> Vec<String> {
        let list = self.get(name).and_then(Value::as_array);
        list.map(|all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect()).unwrap_or_default()
    }

    /// "{fp:7}:<uuid>".
    pub fn execution(&self, name: &str) -> Result<ExecutionId, Failure> {
        ExecutionId::parse(self.text(name)?).map_err(|error| Failure::Usage(format!("{name}: {error}")))
    }

    pub fn flow(&self) -> Result<FlowId, Failure> {
        FlowId::parse(self.text("flow")?).map_err(|error| Failure::Usage(format!("flow: {error}")))
    }

    pub fn budget(&self) -> Result<BudgetId, Failure> {
        BudgetId::parse(self.text("budget")?).map_err(|error| Failure::Usage(format!("budget: {error}")))
    }

    pub fn quota(&self) -> Result<QuotaPolicyId, Failure> {
        QuotaPolicyId::parse(self.text("quota")?).map_err(|error| Failure::Usage(format!("quota: {error}")))
    }

    pub fn lane(&self) -> LaneId {
        LaneId::new(self.text_or("lane", "default"))
    }

    pub fn worker(&self) -> &str {
        self.text_or("worker", "worker")
    }

    pub fn instance(&self) -> &str {
        self.text_or("instance", self.worker())
    }

    pub fn ttl_ms(&self) -> u64 {
        self.count_or("ttl_ms", 60_000)
    }

    /// The moment that the caller says it is; this host's otherwise.
    pub fn now(&self) -> TimestampMs {
        self.maybe_number("now_ms").map_or_else(TimestampMs::now, TimestampMs::from_millis)
    }

    /// `<name>_at_ms` as it stands, or `<name>_in_ms` from now on.
    pub fn moment(&self, name: &str) -> Option<TimestampMs> {
        let at = self.maybe_number(&format!("{name}_at_ms"));
        let after = self.maybe_number(&format!("{name}_in_ms")).map(|ms| self.now().0 + ms);
        at.or(after).map(TimestampMs::from_millis)
    }

    /// FlowFabric's arguments from these values, with fields of the same names in the request in their stead.
    pub fn arguments<T: DeserializeOwned>(&self, values: Value) -> Result<T, Failure> {
        let mut all = values;
        if let Some(object) = all.as_object_mut() {
            for (name, value) in &self.fields {
                if object.contains_key(name) {
                    object.insert(name.clone(), value.clone());
                }
            }
        }
        parse(all)
    }

    pub fn partition(&self, config: &PartitionConfig) -> Result<Option<u16>, Failure> {
        let Some(number) = self.maybe_number("partition") else { return Ok(None) };
        match u16::try_from(number) {
            Ok(index) if index < config.num_flow_partitions => Ok(Some(index)),
            _ => Err(Failure::Usage(format!("partition: there is no {number}"))),
        }
    }
}

pub fn parse<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| Failure::Usage(error.to_string()))
}

pub fn missing(name: &str, what: &str) -> Failure {
    Failure::Usage(format!("{name}: {what} is wanted"))
}
