//! The support bundle: a small archive that a user can send to others to get help. It is made from typed facts, and all free
//! text in it passes a [`Scrubber`].
//!
//! A bundle contains no names of users, groups or hosts, no command lines or environments, no paths, addresses or tokens, and
//! no UUIDs. Settings are shown only where their value is a number, a keyword or the default.

mod archive;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use gua_compat::gpu_usage_audit::tick_line;
use gua_model::chain::chain;
use gua_model::id::{GpuUuid, Uid};
use gua_model::scrub::{HIDDEN, Scrubber, is_number};
use gua_model::{Gpu, Missing, Outage, OwnerKey, Period, Place, Sample, User, Workload};
use gua_probe::doctor::check::{Check, Status};
use gua_probe::doctor::facts::Facts;
use gua_probe::doctor::program::{self, End};
use gua_probe::host;
use gua_render::document::pretty;
use gua_settings::{Loaded, Settings, Source};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::claims::Names;
use crate::log::as_text;
use crate::log_file::last_lines;
use crate::service::collector;
use crate::{VERSION, location};

/// Number of log lines and of collector runs in a bundle.
const MAX_LINES: usize = 300;
const MAX_RUNS: usize = 50;
/// Number of lines that are read from the journal. Most of them are tick lines.
const JOURNAL_LINES: usize = 3000;
/// Maximum time for journalctl.
const JOURNAL_LIMIT: Duration = Duration::from_secs(10);
/// Time before now whose outages are listed.
const OUTAGES: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Maximum size of the list of users.
const MAX_BYTES: u64 = 4 << 20;

/// A file in a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleFile {
    pub name: &'static str,
    /// Description for the person who decides whether to share it.
    pub about: &'static str,
    pub text: String,
}

/// A scrubbed description of this host and its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    pub files: Vec<BundleFile>,
    at: Timestamp,
}

impl Bundle {
    /// Describes this host. `facts` and `checks` are those of `gua doctor`.
    pub fn new(loaded: &Loaded, facts: &Facts, checks: &[Check]) -> Self {
        let settings = &loaded.settings;
        let at = facts.now.timestamp();
        let sample = facts.driver.as_ref().ok();
        let scrubber = Scrubber::new(private_names(loaded, sample));
        let findings = checks.iter().map(|check| Finding::new(check, &scrubber));
        let findings: Vec<Finding> = findings.collect();
        let file = |name, about, text| BundleFile { name, about, text };
        let unreadable = |error: String| HistoryFacts {
            error: Some(scrubber.text(&error)),
            ..HistoryFacts::default()
        };
        let mut files = vec![
            file(
                "versions.json",
                "versions of gua, the kernel and the driver",
                pretty(&Versions::new(facts)),
            ),
            file(
                "checks.json",
                "findings of `gua doctor`, without names, paths and addresses",
                pretty(&findings),
            ),
            file(
                "settings.json",
                "settings that are numbers, keywords or defaults; the others are only named",
                pretty(&ShownSettings::new(settings)),
            ),
            file(
                "history.json",
                "size of the history, collector runs and outages; no hours of people",
                pretty(&history(loaded, at).unwrap_or_else(unreadable)),
            ),
            log(loaded, &scrubber),
        ];
        if let Some(sample) = sample {
            files.push(file(
                "sample.json",
                "one reading of every GPU; GPUs, users and processes are numbered",
                gua_render::sample::json(&anonymous(sample, &scrubber), &settings.thresholds()),
            ));
        }
        files.insert(0, file("README.txt", "this list", String::new()));
        let mut bundle = Self { files, at };
        bundle.files[0].text = bundle.readme();
        bundle
    }

    /// Returns the names of the files with their descriptions and sizes.
    pub fn listing(&self) -> String {
        let line = |file: &BundleFile| {
            let BundleFile { name, about, text } = file;
            format!("  {name:<14}{:>8} bytes  {about}\n", text.len())
        };
        self.files.iter().map(line).collect()
    }

    /// Returns the archive (gzip-compressed tar).
    pub fn archive(&self) -> std::io::Result<Vec<u8>> {
        archive::tar_gz(&self.files, self.at)
    }

    fn readme(&self) -> String {
        let about = "Support bundle of gua. It was made without names of users, groups and hosts, command lines, environments, paths,\n\
             addresses, tokens and UUIDs; such words are replaced by ";
        let hint = "Read the files before you share them.";
        let files = self.files.iter();
        let files = files.map(|file| format!("  {:<14}{}\n", file.name, file.about));
        format!("{about}{HIDDEN}.\n{hint}\n\n{}", files.collect::<String>())
    }
}

/// Returns names that must not appear: users of this host, owners in the history and in the sample, and hosts.
fn private_names(loaded: &Loaded, sample: Option<&Sample>) -> Vec<String> {
    let mut names = vec![host::name()];
    for file in ["/etc/passwd", "/etc/group"] {
        let text = gua_files::read_regular(Path::new(file), MAX_BYTES).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        names.extend(text.lines().filter_map(ordinary));
    }
    names.extend(people(loaded));
    let home = loaded.inputs.home.as_deref().and_then(Path::file_name);
    names.extend(home.map(|name| name.to_string_lossy().into_owned()));
    let settings = &loaded.settings;
    let board = settings.cloud.url.value.as_ref();
    names.extend(board.map(|url| url.host().to_owned()));
    let rows = settings.shown_rows();
    names.extend(rows.iter().flat_map(|row| texts(&row.json)));
    let gpus = sample.iter().flat_map(|sample| &sample.gpus);
    names.extend(gpus.clone().map(|gpu| gpu.uuid.to_string()));
    for process in gpus.flat_map(|gpu| &gpu.processes) {
        if let Ok(identity) = &process.identity {
            names.extend(identity.owner().map(|owner| owner.shown()));
            names.extend(identity.comm.clone().ok());
        }
    }
    // `root` and gua's own user say nothing about a person.
    names.retain(|name| name != "root" && name != "gua");
    names
}

/// Returns the name in a line of passwd or group, unless it is one of the system's.
fn ordinary(line: &str) -> Option<String> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let number = fields.nth(1)?.parse().ok()?;
    is_person(number).then(|| name.to_owned())
}

/// Whether a uid or gid belongs to a person: not to the system, and not to nobody.
fn is_person(number: u32) -> bool {
    number >= 1000 && number != 65_534
}

/// Returns the owners in the history and the users who have processes now. Users of a directory service are not in passwd.
fn people(loaded: &Loaded) -> Vec<String> {
    let access = location::access(&location::history(loaded), &loaded.settings).ok();
    let owners = access.and_then(|access| access.owners(()).ok());
    let mut names: Vec<String> = Vec::new();
    for owner in owners.unwrap_or_default() {
        match owner {
            OwnerKey::Unknown => {}
            OwnerKey::User(user) if !is_person(user.uid.0) => {}
            // `pod:NAMESPACE/NAME`: each part is a name.
            OwnerKey::Workload(word) => {
                names.extend(word.split([':', '/']).skip(1).map(str::to_owned));
            }
            other => names.push(other.shown().into_owned()),
        }
    }
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let users = processes.filter_map(|process| Some(process.metadata().ok()?.uid()));
    let users: BTreeSet<u32> = users.filter(|uid| is_person(*uid)).collect();
    let mut known = Names::default();
    names.extend(users.into_iter().map(|uid| known.user(Uid(uid))));
    names
}

/// Returns the texts in a row of an array of tables, also those in lists: names, patterns and addresses. The values of some keys are
/// keywords, which say nothing about a person.
fn texts(row: &serde_json::Map<String, Value>) -> Vec<String> {
    let is_private = |key: &str| !["when", "to", "per"].contains(&key);
    let pairs = row.iter().filter(|(key, _)| is_private(key));
    pairs.flat_map(|(_, value)| texts_in(value)).collect()
}

fn texts_in(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().flat_map(texts_in).collect(),
        Value::Object(pairs) => pairs.values().flat_map(texts_in).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

#[derive(Serialize)]
struct Versions {
    gua: &'static str,
    /// Without the name that a builder added.
    kernel: String,
    machine: String,
    driver: Option<String>,
    cuda: Option<String>,
    gpus: Option<usize>,
}

impl Versions {
    fn new(facts: &Facts) -> Self {
        let sample = facts.driver.as_ref().ok();
        let release = facts.kernel.release.chars();
        let is_number = |letter: &char| letter.is_ascii_digit() || *letter == '.';
        Self {
            gua: VERSION,
            kernel: release.take_while(is_number).collect(),
            machine: facts.kernel.machine.clone(),
            driver: sample.and_then(|sample| sample.driver.version.clone().ok()),
            cuda: sample
                .and_then(|sample| sample.driver.cuda.as_ref().ok())
                .map(|(major, minor)| format!("{major}.{minor}")),
            gpus: sample.map(|sample| sample.gpus.len()),
        }
    }
}

#[derive(Serialize)]
struct Finding {
    id: &'static str,
    status: Status,
    summary: String,
    details: Value,
}

impl Finding {
    fn new(check: &Check, scrubber: &Scrubber) -> Self {
        let finding = &check.finding;
        let details = serde_json::to_value(&finding.details).unwrap_or_default();
        Self {
            id: check.id,
            status: finding.status,
            summary: scrubber.text(&finding.summary),
            details: scrubbed(&details, scrubber),
        }
    }
}

/// Scrubs every text of a JSON value; the keys are constants of the checks.
fn scrubbed(value: &Value, scrubber: &Scrubber) -> Value {
    match value {
        Value::String(text) => scrubber.text(text).into(),
        Value::Array(values) => values.iter().map(|one| scrubbed(one, scrubber)).collect(),
        Value::Object(pairs) => {
            let pairs = pairs.iter();
            pairs
                .map(|(key, value)| (key.clone(), scrubbed(value, scrubber)))
                .collect()
        }
        other => other.clone(),
    }
}

#[derive(Serialize)]
struct ShownSettings {
    settings: Vec<ShownSetting>,
    /// Number of tables of each kind, such as quotas.
    tables: BTreeMap<&'static str, usize>,
}

#[derive(Serialize)]
struct ShownSetting {
    name: String,
    /// `default`, `file`, `environment` or `flag`.
    source: &'static str,
    value: Value,
}

impl ShownSettings {
    fn new(settings: &Settings) -> Self {
        let mut tables = BTreeMap::new();
        for row in settings.shown_rows() {
            *tables.entry(row.list).or_default() += 1;
        }
        let shown = settings.shown().into_iter().map(|shown| {
            let entry = shown.entry;
            let is_default = shown.toml == (entry.default_toml)();
            // The description of a setting contains its keywords: "auto, text or json".
            let mut keywords = entry
                .what
                .split(|letter: char| !letter.is_ascii_alphanumeric());
            let may_show = match &shown.json {
                Value::String(text) => {
                    is_default || is_number(text) || keywords.any(|word| word == text)
                }
                Value::Array(_) | Value::Object(_) => is_default,
                Value::Null | Value::Bool(_) | Value::Number(_) => true,
            };
            ShownSetting {
                name: format!("{}.{}", entry.section, entry.key),
                source: match shown.source {
                    Source::Default => "default",
                    Source::File { .. } => "file",
                    Source::Environment(_) => "environment",
                    Source::Flag(_) => "flag",
                },
                value: match may_show && !is_path(&shown.json) {
                    true => shown.json,
                    false => HIDDEN.into(),
                },
            }
        });
        Self {
            settings: shown.collect(),
            tables,
        }
    }
}

/// A default path contains the home directory.
fn is_path(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.contains('/'))
}

#[derive(Default, Serialize)]
struct HistoryFacts {
    /// Why the history cannot be read.
    error: Option<String>,
    schema_version: Option<u32>,
    ticks: Option<u64>,
    bytes: Option<u64>,
    first_tick: Option<Timestamp>,
    last_tick: Option<Timestamp>,
    gpus: Option<usize>,
    /// The last runs of a collector.
    runs: Vec<RunFacts>,
    /// Outages of the last 30 days.
    outages: Vec<OutageFacts>,
}

#[derive(Serialize)]
struct RunFacts {
    started: Timestamp,
    ended: Option<Timestamp>,
    interval_seconds: f64,
    version: String,
}

#[derive(Serialize)]
struct OutageFacts {
    from: Timestamp,
    to: Timestamp,
    reason: &'static str,
    ticks_lost: u32,
}

fn history(loaded: &Loaded, now: Timestamp) -> Result<HistoryFacts, String> {
    let access = location::access(&location::history(loaded), &loaded.settings);
    let access = access.map_err(|error| chain(&error))?;
    let facts = access.facts(()).map_err(|error| chain(&error))?;
    let since = now.checked_sub(OUTAGES).unwrap_or(Timestamp::MIN);
    let outages = access.outages(Period::new(since, now)).unwrap_or_default();
    let first = facts.runs.len().saturating_sub(MAX_RUNS);
    let run = |run: &gua_store::RunInfo| RunFacts {
        started: run.started,
        ended: run.ended,
        interval_seconds: run.interval.as_secs_f64(),
        version: run.version.clone(),
    };
    let outage = |outage: &Outage| OutageFacts {
        from: outage.from,
        to: outage.to,
        reason: outage.reason.as_str(),
        ticks_lost: outage.ticks_lost,
    };
    Ok(HistoryFacts {
        error: None,
        schema_version: Some(facts.info.version),
        ticks: Some(facts.info.ticks),
        bytes: Some(facts.info.bytes),
        first_tick: facts.info.first_tick,
        last_tick: facts.info.last_tick,
        gpus: Some(facts.gpus.len()),
        runs: facts.runs.iter().skip(first).map(run).collect(),
        outages: outages.iter().map(outage).collect(),
    })
}

/// Returns the end of the log of the collector whose history is read. The service logs to the journal.
fn log(loaded: &Loaded, scrubber: &Scrubber) -> BundleFile {
    let settings = &loaded.settings;
    let (about, lines) = match location::history(loaded) == settings.history.service_db.value {
        false => (
            "last lines of the daemon's log, without names, paths and addresses",
            last_lines(&settings.collect.log_file.value, MAX_LINES, 0),
        ),
        true => match journal(loaded.inputs.variable("PATH").unwrap_or_default()) {
            Some(lines) => (
                "last lines of the service's log, without names, paths and addresses",
                lines,
            ),
            None => (
                "empty: the service's log in the journal cannot be read; root can read it",
                String::new(),
            ),
        },
    };
    BundleFile {
        name: "log.txt",
        about,
        text: scrubbed_lines(&lines, scrubber),
    }
}

/// Returns the last lines of the service's log without tick lines; `None` if they cannot be read.
fn journal(search_path: &OsStr) -> Option<String> {
    // journalctl(1): without `--quiet`, it prints remarks about journals that this user may not read.
    let arguments = format!(
        "--unit={} --output=cat --lines={JOURNAL_LINES} --reverse --quiet --no-pager",
        collector::NAME
    );
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let run = program::ask(
        program::find(search_path, "journalctl")?,
        &arguments,
        JOURNAL_LIMIT,
    )?;
    // To a user who may not read the service's lines, the journal is empty.
    if run.end != End::Code(0) || run.stdout.is_empty() {
        return None;
    }
    // The newest line is the first one. The last one may be truncated, and part of a name would not be recognized.
    let lines = run.stdout.split_inclusive('\n');
    let lines = lines.filter(|line| line.ends_with('\n') && !line.starts_with(tick_line::PREFIX));
    let lines: Vec<&str> = lines.take(MAX_LINES).collect();
    Some(lines.into_iter().rev().collect())
}

fn scrubbed_lines(lines: &str, scrubber: &Scrubber) -> String {
    let mut text = String::new();
    for line in lines.lines() {
        text.push_str(&scrubber.text(&as_text(line)));
        text.push('\n');
    }
    text
}

/// Returns the sample with numbers in place of UUIDs and users, and without the names of programs and workloads.
fn anonymous(sample: &Sample, scrubber: &Scrubber) -> Sample {
    let mut sample = sample.clone();
    sample.boot = Err(Missing::Denied);
    let number = |(place, gpu): (usize, &Gpu)| {
        let kind = match gpu.uuid.as_str().starts_with("MIG-") {
            true => "MIG",
            false => "GPU",
        };
        Some((gpu.uuid.clone(), format!("{kind}-{place}").parse().ok()?))
    };
    let gpus = sample.gpus.iter().enumerate();
    let uuids: BTreeMap<GpuUuid, GpuUuid> = gpus.filter_map(number).collect();
    let numbered = |uuid: &mut GpuUuid| {
        if let Some(number) = uuids.get(uuid) {
            *uuid = number.clone();
        }
    };
    let mut people = People::default();
    for gpu in &mut sample.gpus {
        numbered(&mut gpu.uuid);
        if let Place::Instance { parent, .. } = &mut gpu.place {
            numbered(parent);
        }
        for process in &mut gpu.processes {
            if let Ok(identity) = &mut process.identity {
                people.hide(identity);
            }
        }
    }
    for problem in &mut sample.problems {
        problem.gpu.as_mut().map(numbered);
        problem.text = scrubber.text(&problem.text);
    }
    sample
}

/// Numbers of users in the order in which they appear.
#[derive(Default)]
struct People(BTreeSet<(usize, Uid)>);

impl People {
    fn hide(&mut self, identity: &mut gua_model::Identity) {
        identity.comm = Err(Missing::Denied);
        let workload = &mut identity.workload;
        let users = [
            identity.login.as_mut().ok().and_then(Option::as_mut),
            identity.claimed_login.as_mut(),
            identity.own.as_mut().ok(),
            workload.user.as_mut(),
        ];
        users
            .into_iter()
            .flatten()
            .for_each(|user| self.number(user));
        identity.workload = Workload {
            container: (workload.container.take()).and_then(|_| "hidden".parse().ok()),
            pod: workload.pod.take().and_then(|_| "hidden".parse().ok()),
            job: workload.job.take().and_then(|_| "0".parse().ok()),
            user: workload.user.take(),
            containers: workload.containers,
            ..Workload::default()
        };
    }

    /// Replaces a user by a number; root stays root.
    fn number(&mut self, user: &mut User) {
        user.name = None;
        if user.uid == Uid(0) {
            return;
        }
        let known = self.0.iter().find(|(_, uid)| *uid == user.uid);
        let number = known.map_or(self.0.len() + 1, |(number, _)| *number);
        self.0.insert((number, user.uid));
        user.uid = Uid(u32::try_from(number).unwrap_or(u32::MAX));
    }
}
