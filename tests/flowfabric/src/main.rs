//! The real FlowFabric over one PostgreSQL database, driven by JSON: a request a line on standard input, an answer a
//! line on standard output. `--help` lists the operations.

mod accounts;
mod claims;
mod failure;
mod flows;
mod operations;
mod operators;
mod quotas;
mod request;
mod scans;
mod session;
mod setup;
mod suspensions;
mod work;

use std::io::Write;
use std::process::ExitCode;

use ff_core::partition::PartitionConfig;
use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::failure::{Answer, Failure};
use crate::request::Request;
use crate::session::Session;

struct Options {
    url: String,
    partitions: PartitionConfig,
    seed: Option<u64>,
}

fn options() -> Result<Options, String> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("a URL is wanted")?;
    let mut options = Options { url, partitions: PartitionConfig::default(), seed: None };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} wants a value"))?;
        let number: u64 = value.parse().map_err(|_| format!("{name} wants a number, not {value}"))?;
        let count = u16::try_from(number).unwrap_or(u16::MAX);
        match name.as_str() {
            "--seed" => options.seed = Some(number),
            "--flow-partitions" => options.partitions.num_flow_partitions = count,
            "--budget-partitions" => options.partitions.num_budget_partitions = count,
            _ => return Err(format!("there is no option {name}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--help") {
        print!("{}", operations::help());
        return ExitCode::SUCCESS;
    }
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("ff-flowfabric: {message}\n\n{}", operations::help());
            return ExitCode::from(64);
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("ff-flowfabric: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(serve(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("ff-flowfabric: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Until standard input ends.
async fn serve(options: &Options) -> Result<(), String> {
    let mut session =
        Session::open(&options.url, options.partitions, options.seed).await.map_err(|error| error.to_string())?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await.map_err(|error| error.to_string())? {
        let answer = answer_to(&mut session, &line).await;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}").and_then(|()| out.flush()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn answer_to(session: &mut Session, line: &str) -> Value {
    let Ok(Value::Object(fields)) = serde_json::from_str(line) else {
        return json!({"error": Failure::Usage("a request is a JSON object".to_owned()).to_json()});
    };
    let id = fields.get("id").cloned().unwrap_or(Value::Null);
    let op = fields.get("op").and_then(Value::as_str).unwrap_or_default().to_owned();
    let outcome = run(session, &op, &Request::new(fields)).await;
    match outcome {
        Ok(told) => json!({"id": id, "ok": told}),
        Err(failure) => json!({"id": id, "error": failure.to_json()}),
    }
}

async fn run(session: &mut Session, op: &str, request: &Request) -> Answer {
    let outcome = operations::run(session, op, request).await;
    session.idle().await?;
    outcome
}
