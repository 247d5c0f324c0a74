//! A simulated fleet: what 12 hosts with 8 GPUs each would report at a given time, and a board over it.
//!
//! A report depends on the host and the time alone, so a demonstration, a screenshot and a test see the same fleet.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gua_board_store::ledger::Form;
use gua_board_store::registry::{Account, FIRST_WORKSPACE, Role};
use gua_board_store::{HostId, Kind, Secret, SecretHash};
use gua_model::{FaultKind, GpuUuid, Missing, State};
use gua_wire::LiveReport;
use gua_wire::live::{
    GpuClaim, GpuKeep, LiveGpu, LiveHost, LiveProcess, LiveValue, LiveVersion, ObstacleWord,
};
use gua_wire::snapshot::ProcessType;
use jiff::{SignedDuration, Timestamp};
use tokio::time::{MissedTickBehavior, interval};

use crate::app::App;
use crate::availability::Group;
use crate::live::Day;
use crate::set_up::{KeyRequest, SetUp, SetUpError};

/// Number of hosts.
pub const HOSTS: u32 = 12;
/// Number of GPUs of each host.
pub const GPUS: u32 = 8;

/// Model, memory and idle power of each group of hosts, with the prefix of their names.
const KINDS: [(&str, &str, u64, u64); 4] = [
    ("lab-a100", "NVIDIA A100-SXM4-80GB", 80, 60_000),
    ("lab-h100", "NVIDIA H100 80GB HBM3", 80, 75_000),
    ("lab-a6000", "NVIDIA RTX A6000", 48, 22_000),
    ("lab-4090", "NVIDIA GeForce RTX 4090", 24, 18_000),
];
const PEOPLE: [&str; 7] = ["ada", "grace", "linus", "minji", "jiho", "sofia", "ken"];
const PROGRAMS: [&str; 4] = ["python", "python3", "train.py", "vllm"];

/// Accounts of the board; the first is the one that the link logs in.
const ACCOUNTS: [(&str, Role); 4] = [
    ("demo", Role::Owner),
    ("ada", Role::Admin),
    ("minji", Role::Member),
    ("lobby screen", Role::Viewer),
];
/// Version of the simulated agents.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Time before the start that the fleet has reported for, and the time between two of these reports.
const PAST: SignedDuration = SignedDuration::from_hours(1);
const STEP: SignedDuration = SignedDuration::from_secs(20);
/// Time before the start at which the last host stopped reporting.
const SILENT: SignedDuration = SignedDuration::from_mins(25);

/// The simulated hosts of a board.
#[derive(Debug)]
pub struct Fleet {
    hosts: Vec<HostId>,
}

/// The one account that may enter a demonstration without a password, once.
#[derive(Clone, Debug)]
pub struct Guest {
    pub link: SecretHash,
    pub account: Account,
}

impl Fleet {
    /// Enrols the fleet in new data. Returns the secret of the link for the guest as well.
    pub fn enrol(set_up: SetUp<'_>) -> Result<(Self, Guest, Secret), SetUpError> {
        let mut accounts = Vec::new();
        for (name, role) in ACCOUNTS {
            accounts.push(set_up.add_user(FIRST_WORKSPACE, name, role, None)?);
        }
        let wanted = KeyRequest {
            uses: HOSTS,
            ..KeyRequest::default()
        };
        let key = set_up.add_enrolment_key(FIRST_WORKSPACE, wanted)?;
        let mut hosts = Vec::new();
        for host in 0..HOSTS {
            hosts.push(set_up.enrol(&key, host_name(host), Some(VERSION.to_owned()))?);
        }
        let link = Secret::generate(Kind::Link);
        let guest = Guest {
            link: link.hash(),
            account: accounts.swap_remove(0),
        };
        Ok((Self { hosts }, guest, link))
    }

    /// Lets every host report for the last hour, so that curves and durations are there from the beginning.
    pub fn catch_up(&self, app: &App) {
        let now = app.now();
        let mut ago = PAST;
        while ago > SignedDuration::ZERO {
            let at = now.saturating_sub(ago).unwrap_or(now);
            let silent = u32::from(ago < SILENT);
            self.report(app, HOSTS - silent, at);
            ago = ago.saturating_sub(STEP);
        }
        for (host, id) in (0..HOSTS).zip(&self.hosts) {
            app.live.add_days(id, last_day(host, now));
        }
    }

    /// Reports every second. The last host has stopped.
    pub async fn run(self, app: Arc<App>) {
        let mut second = interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            second.tick().await;
            self.report(&app, HOSTS - 1, app.now());
        }
    }

    fn report(&self, app: &App, hosts: u32, at: Timestamp) {
        for (host, id) in (0..hosts).zip(&self.hosts) {
            app.live.apply(id, Form::Live, report(host, at), at);
        }
    }
}

/// Simulated day strips of a host's GPUs, up to the hour in which the host reports.
fn last_day(host: u32, now: Timestamp) -> Vec<(GpuUuid, Day)> {
    let quarter = SignedDuration::from_mins(15);
    let mut days: HashMap<GpuUuid, Day> = HashMap::new();
    let end = now.saturating_sub(PAST).unwrap_or(now);
    let mut from = end
        .saturating_sub(SignedDuration::from_hours(23))
        .unwrap_or(end);
    while from < end {
        let until = from.saturating_add(quarter).unwrap_or(end).min(end);
        for gpu in report(host, from).gpus {
            let group = Group::of(&gpu, false);
            let day = days.entry(gpu.uuid).or_default();
            day.add(group, from.as_second(), until.as_second());
        }
        from = until;
    }
    days.into_iter().collect()
}

/// Use of a GPU during one job.
#[derive(Clone, Copy)]
enum Job {
    Training,
    Notebook,
    Claimed,
    Broken,
    Nothing,
}

/// Returns the name of a host.
pub fn host_name(host: u32) -> String {
    let (prefix, ..) = kind(host);
    format!("{prefix}-{:02}", host + 1)
}

fn kind(host: u32) -> (&'static str, &'static str, u64, u64) {
    let place = host / HOSTS.div_ceil(4) % 4;
    KINDS[usize::try_from(place).expect("one of four")]
}

/// Mixes numbers into one that looks random but is always the same.
fn mix(parts: [u64; 3]) -> u64 {
    parts.into_iter().fold(0x9e37_79b9_7f4a_7c15, |sum, part| {
        let sum = (sum ^ part).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        sum ^ (sum >> 29)
    })
}

/// Returns the report of a host at a time.
pub fn report(host: u32, at: Timestamp) -> LiveReport {
    LiveReport {
        schema_version: LiveVersion::V1,
        observed_at: at,
        host: LiveHost {
            hostname: host_name(host),
            agent_version: VERSION.to_owned(),
            driver_version: Some("570.124.06".to_owned()),
        },
        gpus: (0..GPUS).map(|index| gpu(host, index, at)).collect(),
        waiting: u32::from(host == 3),
        quotas: Vec::new(),
        problems: Vec::new(),
    }
}

fn gpu(host: u32, index: u32, at: Timestamp) -> LiveGpu {
    let (_, name, size, idle_power) = kind(host);
    let own = u64::from(host * GPUS + index);
    let minute = u64::try_from(at.as_second() / 60).unwrap_or(0);
    // Jobs of different GPUs last 25 to 94 minutes and change at different times.
    let length = 25 + mix([own, 1, 2]) % 70;
    let number = (minute + own * 7) / length;
    let seed = mix([own, number, 3]);
    let job = match seed % 100 {
        ..52 => Job::Training,
        52..70 => Job::Notebook,
        70..75 => Job::Claimed,
        75..77 => Job::Broken,
        _ => Job::Nothing,
    };
    let person = PEOPLE[usize::try_from(seed / 100 % 7).expect("one of seven")];
    let total = size << 30;
    let second = u64::try_from(at.as_second()).unwrap_or(0);
    // A level for ten seconds, and a little noise in each of them.
    let wave = mix([own, second / 10, 5]) % 32 + mix([own, second, 7]) % 8;
    let (state, obstacle, util, used) = match job {
        Job::Training => {
            let util = 60 + wave;
            let used = total / 100 * (45 + seed / 700 % 50);
            (State::Active, Some(ObstacleWord::Held), util, used)
        }
        Job::Notebook => {
            let used = total / 100 * (5 + seed / 700 % 40);
            (State::IdleHeld, Some(ObstacleWord::Held), wave % 3, used)
        }
        Job::Claimed => (State::TrulyIdle, Some(ObstacleWord::Claimed), 0, 3 << 20),
        Job::Broken => (State::Unobserved, Some(ObstacleWord::Unobserved), 0, 0),
        Job::Nothing => (State::TrulyIdle, None, 0, 3 << 20),
    };
    let is_broken = state == State::Unobserved;
    let has_process = matches!(job, Job::Training | Job::Notebook);
    let process = LiveProcess {
        pid: 1000 + u32::try_from(seed % 60_000).expect("a small number"),
        owner: Some(person.to_owned()),
        name: Some(PROGRAMS[usize::try_from(seed / 9 % 4).expect("one of four")].to_owned()),
        kind: ProcessType::Compute,
        memory_bytes: LiveValue::Known(used),
    };
    let claim = matches!(job, Job::Claimed).then(|| GpuClaim {
        owner: Some(person.to_owned()),
        until: at.checked_add(SignedDuration::from_mins(9)).ok(),
    });
    // Some of the people with an open notebook have said that they still need it.
    let is_kept = matches!(job, Job::Notebook) && (seed / 7).is_multiple_of(4);
    let until = at.checked_add(SignedDuration::from_mins(90)).ok();
    let keep = until.filter(|_| is_kept).map(|until| GpuKeep {
        owner: Some(person.to_owned()),
        until,
        why: Some("evaluation after the download".to_owned()),
    });
    let util = u8::try_from(util).expect("a percentage");
    LiveGpu {
        uuid: uuid(own),
        index,
        name: Some(name.to_owned()),
        instance: None,
        state,
        obstacle,
        util_percent: known(is_broken, util),
        memory_used_bytes: known(is_broken, used),
        memory_total_bytes: LiveValue::Known(total),
        temperature_celsius: known(is_broken, 30 + i32::from(util) / 2),
        power_milliwatts: known(is_broken, idle_power + u64::from(util) * 3000),
        health: Vec::from_iter(is_broken.then_some(FaultKind::Lost)),
        claim,
        keeps: Vec::from_iter(keep),
        processes: Vec::from_iter(has_process.then_some(process)),
    }
}

fn known<T>(is_broken: bool, value: T) -> LiveValue<T> {
    match is_broken {
        true => LiveValue::Missing {
            missing: Missing::Gone,
        },
        false => LiveValue::Known(value),
    }
}

fn uuid(own: u64) -> GpuUuid {
    let (high, low) = (mix([own, 7, 11]), mix([own, 13, 17]));
    let text = format!(
        "GPU-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    );
    text.parse().expect("hexadecimal digits and dashes")
}
