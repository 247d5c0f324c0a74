//! The simulated hosts: their enrolment, what they report, and which of their pushes are stored.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;

use gua_board_store::registry::{
    Actor, Change, FIRST_WORKSPACE, HostClaim, KeyLimits, NewAccount, NewApiToken, NewEnrolmentKey,
    Role, Scope,
};
use gua_board_store::{HostId, Kind, Ledger as _, Registry, Secret, SqliteStore};
use jiff::Timestamp;

use super::Load;
use super::client::exchange;
use crate::wait_for;

/// Models of the GPUs, with their memory in MB.
const MODELS: [(&str, u64); 4] = [
    ("NVIDIA A100-SXM4-80GB", 81_920),
    ("NVIDIA H100 80GB HBM3", 81_559),
    ("NVIDIA RTX A6000", 49_140),
    ("NVIDIA GeForce RTX 4090", 24_564),
];
const PEOPLE: [&str; 5] = ["ada", "grace", "linus", "minji", "sofia"];

/// The enrolled hosts and a token that may read.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) hosts: Vec<EnrolledHost>,
    pub(super) reader: String,
    gpus: u32,
}

/// One host.
#[derive(Debug)]
pub(super) struct EnrolledHost {
    id: HostId,
    pub(super) token: String,
}

impl Fleet {
    /// Enrols all hosts in new data.
    pub(super) fn enrol(load: &Load) -> Self {
        let store: &dyn Registry = &SqliteStore::open(&load.directory).unwrap();
        let by = Change {
            actor: Actor::CommandLine,
            address: None,
            at: wall_clock(),
        };
        let workspaces = store.workspaces().unwrap();
        let workspace = workspaces
            .into_iter()
            .find(|one| one.name == FIRST_WORKSPACE);
        let workspace = workspace.unwrap().id;
        let account = NewAccount {
            name: "load".to_owned(),
            password: None,
            workspace: workspace.clone(),
            role: Role::Owner,
        };
        let account = store.add_account(&by, &account).unwrap();
        let reader = Secret::generate(Kind::Api);
        let token = NewApiToken {
            hash: reader.hash(),
            prefix: reader.prefix(),
            workspace: workspace.clone(),
            account: account.id,
            scope: Scope::Read,
            expires: None,
        };
        store.add_api_token(&by, &token).unwrap();
        let key = Secret::generate(Kind::Enrolment);
        let new = NewEnrolmentKey {
            hash: key.hash(),
            prefix: key.prefix(),
            workspace,
            name: None,
            limits: KeyLimits::default(),
            uses: load.hosts,
            expires: None,
        };
        store.add_enrolment_key(&by, &new).unwrap();
        let enrol = |number: u32| {
            let token = Secret::generate(Kind::Agent);
            let claim = HostClaim {
                key: key.hash(),
                token: token.hash(),
                token_prefix: token.prefix(),
                hostname: Some(host_name(number)),
                agent_version: None,
                driver_version: None,
                address: None,
                at: by.at,
            };
            EnrolledHost {
                id: store.claim(&claim).unwrap().id,
                token: token.reveal().to_owned(),
            }
        };
        Self {
            hosts: (0..load.hosts).map(enrol).collect(),
            reader: reader.reveal().to_owned(),
            gpus: load.gpus,
        }
    }

    /// Body of a push: 8 GPUs in the states of a real host, which change every few rounds.
    pub(super) fn snapshot(&self, host: u32, round: u64, at: Timestamp) -> String {
        let (model, total) = MODELS[(host % 4) as usize];
        let gpu = |index: u32| {
            let seed = mix(u64::from(host) << 40 | u64::from(index) << 32 | (round / 8));
            let (util, used) = match seed % 10 {
                0..=4 => (60 + mix(seed + round) % 40, total / 100 * (40 + seed % 50)),
                5..=6 => (0, total / 100 * (5 + seed % 30)),
                _ => (0, 3),
            };
            let person = PEOPLE[(seed / 16 % 5) as usize];
            let process = match used > 3 {
                true => format!(
                    r#"{{"pid":{},"linuxUser":"{person}","name":"python","type":"compute","memoryUsedMb":{used}}}"#,
                    1000 + seed % 60_000
                ),
                false => String::new(),
            };
            let state = match (used > 3, util > 5) {
                (false, _) => "idle",
                (true, true) => "active",
                (true, false) => "idle_held",
            };
            format!(
                r#"{{"index":{index},"uuid":"{}","name":"{model}","memoryTotalMb":{total},"utilPct":{util},"memoryUsedMb":{used},"temperatureC":{},"powerW":{},"processes":[{process}],"usageState":"{state}"}}"#,
                uuid(host, index),
                30 + util / 2,
                60 + util * 3,
            )
        };
        let gpus: Vec<String> = (0..self.gpus).map(gpu).collect();
        format!(
            r#"{{"schemaVersion":"availability.snapshot.v1","collectionStatus":"ok","observedAt":"{at}","host":{{"hostname":"{}","agentVersion":"1.8.0","driverVersion":"570.124.06"}},"gpus":[{}],"errors":[]}}"#,
            host_name(host),
            gpus.join(",")
        )
    }

    /// One frame of a stream.
    pub(super) fn frame(&self, host: u32, second: u64) -> String {
        let gpu = |index: u32| {
            let util = mix(u64::from(host) << 20 | u64::from(index) | second << 40) % 101;
            format!(
                r#"{{"deviceUuid":"{}","utilPct":{util},"memUsedMb":1000}}"#,
                uuid(host, index)
            )
        };
        let gpus: Vec<String> = (0..self.gpus).map(gpu).collect();
        let at = wall_clock().as_second();
        format!(
            r#"{{"type":"util","ts":{at}.5,"gpus":[{}]}}"#,
            gpus.join(",")
        )
    }

    /// Waits until the board has counted the frames that were sent, and returns its count.
    pub(super) fn frames_received(&self, address: SocketAddr, sent: u64) -> u64 {
        if sent == 0 {
            return 0;
        }
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\r\n",
            self.reader
        );
        wait_for("the frames that were sent", || {
            let (_, body) = exchange(address, request.as_bytes()).unwrap();
            let text = String::from_utf8(body).unwrap();
            let count = text
                .lines()
                .find_map(|line| line.strip_prefix("gua_board_stream_frames_total "));
            let count = count?.parse().ok()?;
            (count >= sent).then_some(count)
        })
    }

    /// Number of acknowledged pushes that the data does not have.
    pub(super) fn missing(&self, directory: &Path, acknowledged: &[(u32, Timestamp)]) -> u64 {
        let store = SqliteStore::open_existing(directory).unwrap();
        let stored = store.snapshot_keys().unwrap();
        let stored: HashSet<(HostId, Timestamp)> = stored.into_iter().collect();
        let is_missing = |(host, at): &&(u32, Timestamp)| {
            let id = self.hosts[*host as usize].id.clone();
            !stored.contains(&(id, *at))
        };
        acknowledged.iter().filter(is_missing).count() as u64
    }
}

fn host_name(number: u32) -> String {
    format!("node-{number:05}")
}

fn uuid(host: u32, index: u32) -> String {
    format!("GPU-{host:08x}-4a7b-4c1d-9e2f-{index:012x}")
}

/// Mixes a number into one that looks random but is always the same.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (number ^ (number >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}

/// The wall clock in microseconds, which is what a board stores.
#[expect(
    clippy::disallowed_methods,
    reason = "the simulated hosts are beside the program, not in it"
)]
pub(super) fn wall_clock() -> Timestamp {
    Timestamp::from_microsecond(Timestamp::now().as_microsecond()).unwrap()
}
