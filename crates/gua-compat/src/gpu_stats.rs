//! The daily CSV of gpu_stats: file names, rows, and parsing of existing files.
//!
//! gpu_stats writes one row for each GPU that has a process, with the first process only, and one row of dashes if no
//! GPU has any. This format is reproduced exactly. In cases where gpu_stats would have failed, a value is left empty
//! instead: a GPU without a readable utilisation has a row without a usage. [`full`] is an extended format specific to
//! gua, with every process.

mod directory;
pub mod full;
mod import;
mod percent;
mod read;

use std::borrow::Cow;
use std::fmt::Write as _;

use gua_model::text::sanitize;
use gua_model::{Gpu, OwnerKey, Place, Process, Sample, User};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

pub use self::directory::{days, read_day, usual_interval};
pub use self::import::{Again, StatsDay, StatsImported, StatsInterval, StatsRow, import_day};
pub use self::percent::{PercentAnswer, PercentQuestion, percentages};
pub use self::read::{NotGpuStats, Parsed, RowError, parse};

/// First line of every file.
pub const HEADER: &str = "timestamp,user,pid,gpu,usage";

/// Placeholder in a row without a process.
const NOBODY: &str = "-";

/// Format of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The format of gpu_stats.
    #[default]
    Classic,
    /// Every process, with all readings of its GPU.
    Full,
}

impl Form {
    pub fn header(self) -> &'static str {
        match self {
            Form::Classic => HEADER,
            Form::Full => full::HEADER,
        }
    }

    /// File name of a day. The two formats never share a file.
    pub fn file_name(self, day: Date) -> String {
        let day = day.strftime("%Y%m%d");
        match self {
            Form::Classic => format!("{day}{CLASSIC}"),
            Form::Full => format!("{day}_gpu_stats_full.csv"),
        }
    }
}

const CLASSIC: &str = "_gpu_stats.csv";

/// Date of a file in the format of gpu_stats; `None` for other file names.
pub fn day_of(file_name: &str) -> Option<Date> {
    let day = file_name.strip_suffix(CLASSIC)?;
    let is_plain = day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| Date::strptime("%Y%m%d", day).ok())?
}

/// Minute of the rows, and the day whose file they belong to. Both come from the same timestamp, so that they agree at
/// midnight and across clock changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minute {
    /// Start of the wall-clock minute, in seconds since 1970.
    pub second: i64,
    pub day: Date,
}

impl Minute {
    pub fn of(at: Timestamp, zone: &TimeZone) -> Self {
        let local = at.to_zoned(zone.clone());
        Self {
            second: at.as_second() - i64::from(local.second()),
            day: local.date(),
        }
    }
}

/// One row: a GPU and its first process, or no process at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub timestamp: i64,
    pub holder: Option<Holder>,
}

/// First process of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub user: String,
    pub pid: u32,
    /// Index of the GPU on the host.
    pub gpu: u32,
    /// Utilisation of the GPU, in percent; `None` if it could not be read.
    pub usage: Option<u32>,
}

/// Output of one sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Whole lines.
    pub text: String,
    /// Number of lines.
    pub rows: usize,
    /// GPUs whose processes could not be read; they have no lines.
    pub unread: Vec<u32>,
}

/// Formats a sample.
pub fn lines(
    sample: &Sample,
    form: Form,
    minute: Minute,
    thresholds: &gua_model::Thresholds,
) -> Lines {
    let unread = unread(sample);
    let (text, rows) = match form {
        Form::Full => full::lines(sample, thresholds),
        Form::Classic => {
            let mut text = String::new();
            let rows = rows(sample, minute);
            for row in &rows {
                push(&mut text, row);
            }
            (text, rows.len())
        }
    };
    Lines { text, rows, unread }
}

/// Rows of a sample, selected as gpu_stats does. If no process is seen and a GPU could not be read, there is no row:
/// the row of dashes requires that all GPUs are known to be unused.
pub fn rows(sample: &Sample, minute: Minute) -> Vec<Row> {
    let gpus = sample.gpus.iter();
    let gpus = gpus.filter(|gpu| gpu.place.parent().is_none());
    let mut rows: Vec<Row> = gpus
        .filter_map(|gpu| {
            let process = first(sample, gpu)?;
            Some(Row {
                timestamp: minute.second,
                holder: Some(Holder {
                    user: user(process).unwrap_or_else(|| gua_wire::users::UNKNOWN.to_owned()),
                    pid: process.pid.0,
                    gpu: gpu.index,
                    usage: gpu.util.ok().map(|util| util.get().into()),
                }),
            })
        })
        .collect();
    if rows.is_empty() && unread(sample).is_empty() {
        rows.push(Row {
            timestamp: minute.second,
            holder: None,
        });
    }
    rows
}

/// First process of a GPU or of its MIG instances; processes with a known user are preferred.
fn first<'sample>(sample: &'sample Sample, gpu: &'sample Gpu) -> Option<&'sample Process> {
    let is_instance = |other: &&Gpu| other.place.parent() == Some(&gpu.uuid);
    let instances = sample.gpus.iter().filter(is_instance);
    let instances = instances.flat_map(|instance| &instance.processes);
    let all = || gpu.processes.iter().chain(instances.clone());
    let named = all().find(|process| user(process).is_some());
    named.or_else(|| all().next())
}

/// Name of the user that a process runs as, which gpu_stats reads from `/proc`; if that is not readable, the name of
/// its owner.
fn user(process: &Process) -> Option<String> {
    let who = process.identity.as_ref().ok()?;
    match &who.own {
        Ok(own) => Some(name_of(own)),
        Err(_) => who.owner().map(|owner| owner_name(&owner.who)),
    }
}

/// Name of an owner, or the uid of a user whose name is unknown.
fn owner_name(owner: &OwnerKey) -> String {
    match owner {
        OwnerKey::User(user) => name_of(user),
        other => sanitize(&other.shown()),
    }
}

/// Name of a user, or the uid if the name is unknown.
fn name_of(user: &User) -> String {
    match &user.name {
        Some(name) => sanitize(name),
        None => user.uid.0.to_string(),
    }
}

/// Indexes of the GPUs whose processes could not be read.
fn unread(sample: &Sample) -> Vec<u32> {
    let of_gpus = sample.gpus.iter().filter(|gpu| {
        let by_instances = matches!(gpu.place, Place::Parent { instances: 1.. });
        gpu.compute_list.is_err() && gpu.processes.is_empty() && !by_instances
    });
    // A GPU that has fallen off the bus appears only as a problem with its index.
    let lost = sample
        .problems
        .iter()
        .filter(|problem| problem.gpu.is_none());
    let lost = lost.filter_map(|problem| problem.index);
    let lost = lost.filter(|index| sample.gpus.iter().all(|gpu| gpu.index != *index));
    let mut unread: Vec<u32> = of_gpus.map(|gpu| gpu.index).chain(lost).collect();
    unread.sort_unstable();
    unread.dedup();
    unread
}

/// Writes one row as a line.
pub fn push(text: &mut String, row: &Row) {
    let at = row.timestamp;
    // Writing to a string cannot fail.
    let _ = match &row.holder {
        None => writeln!(text, "{at},{NOBODY},{NOBODY},{NOBODY},0"),
        Some(Holder {
            user,
            pid,
            gpu,
            usage,
        }) => {
            let usage = usage.map(|usage| usage.to_string()).unwrap_or_default();
            writeln!(text, "{at},{},{pid},{gpu},{usage}", field(user))
        }
    };
}

/// Formats a CSV field, quoted if necessary by the rule of Python's csv writer. The rule is here and not the csv crate's writer,
/// because the user is the only field of a line that can need quotes, and lines are appended to a text.
fn field(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        false => text.into(),
    }
}
