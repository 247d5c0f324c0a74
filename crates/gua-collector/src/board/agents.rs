//! Asks agents of nvgpu for their GPUs (`gua serve`). No token is sent.

use std::io::Read as _;
use std::thread;
use std::time::Duration;

use gua_settings::Loaded;
use gua_wire::ServerUrl;
use gua_wire::nvgpu::{AgentReport, ClusterEntry, GPU_STATUS};
use gua_wire::server_url::Unencrypted;

use super::endpoint::{ConnectOptions, Endpoint};
use super::setup;

/// Time limit for each agent, as in nvgpu.
const TIME: Duration = Duration::from_secs(5);
/// Maximum size of a report: thousands of GPUs.
const MAX_BYTES: u64 = 4 << 20;

/// Asks all agents at once. A failed one has an error in nvgpu's words.
pub fn ask(loaded: &Loaded, agents: &[ServerUrl]) -> Vec<ClusterEntry> {
    let options = ConnectOptions {
        unencrypted: Unencrypted::Allowed,
        ..setup::connect_options(loaded)
    };
    thread::scope(|scope| {
        let asked = agents.iter();
        let asked: Vec<_> = asked
            .map(|agent| scope.spawn(|| ask_one(agent, &options)))
            .collect();
        let answers = asked.into_iter().map(|thread| {
            let answer = thread
                .join()
                .unwrap_or_else(|_| Err(UNREACHABLE.to_owned()));
            match answer {
                Ok(report) => ClusterEntry::Report(report),
                Err(error) => ClusterEntry::Failed { error },
            }
        });
        answers.collect()
    })
}

const UNREACHABLE: &str = "Host not available";

fn ask_one(agent: &ServerUrl, options: &ConnectOptions) -> Result<AgentReport, String> {
    let endpoint = Endpoint::new(agent, options).map_err(|error| error.to_string())?;
    let request = endpoint.agent.get(agent.at(GPU_STATUS));
    let request = request.config().timeout_global(Some(TIME)).build();
    let failed = |error| match error {
        ureq::Error::Timeout(_) => "Connection timeout",
        _ => UNREACHABLE,
    };
    let mut response = request.call().map_err(failed)?;
    let status = response.status();
    if status.as_u16() != 200 {
        let reason = status.canonical_reason().unwrap_or("unknown");
        return Err(format!("Bad response ({}: {reason})", status.as_u16()));
    }
    let mut bytes = Vec::new();
    let body = response.body_mut().as_reader().take(MAX_BYTES);
    { body }
        .read_to_end(&mut bytes)
        .map_err(|error| failed(error.into()))?;
    serde_json::from_slice(&bytes)
        .map_err(|_| "Bad response (200: not the report of an agent)".to_owned())
}
