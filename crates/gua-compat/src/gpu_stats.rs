//! The daily CSV of gpu_stats: what its files are called, what its rows say, and how rows of others are read.
//!
//! gpu_stats writes one row for each card that has a process, naming the first process alone, and one row of dashes where
//! no card has any. That form is kept to the letter. Where it would have stopped, a value is left empty instead: a card
//! without a readable utilisation has a row without a usage. [`full`] is a form of our own, with every process.

pub mod full;
mod import;
mod read;

use std::fmt::Write as _;

use gua_model::text::sanitize;
use gua_model::{Gpu, Place, Process, Sample, User};
use gua_wire::archive::csv::push_text;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

pub use self::import::{Again, StatsDay, StatsImported, StatsInterval, StatsRow, import_day};
pub use self::read::{NotGpuStats, Parsed, RowError, parse};

/// The first line of every file.
pub const HEADER: &str = "timestamp,user,pid,gpu,usage";

/// What stands in a row that names nobody.
const NOBODY: &str = "-";

/// In which form a day is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// As gpu_stats writes it.
    #[default]
    Classic,
    /// Every process, with all that is known of its card.
    Full,
}

impl Form {
    #[must_use]
    pub fn header(self) -> &'static str {
        match self {
            Form::Classic => HEADER,
            Form::Full => full::HEADER,
        }
    }

    /// The file of a day. The two forms never share one.
    #[must_use]
    pub fn file_name(self, day: Date) -> String {
        let day = day.strftime("%Y%m%d");
        match self {
            Form::Classic => format!("{day}{CLASSIC}"),
            Form::Full => format!("{day}_gpu_stats_full.csv"),
        }
    }
}

const CLASSIC: &str = "_gpu_stats.csv";

/// The day of a file in gpu_stats' form; `None` for files of other names.
#[must_use]
pub fn day_of(file_name: &str) -> Option<Date> {
    let day = file_name.strip_suffix(CLASSIC)?;
    if day.len() != 8 || !day.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = |at: std::ops::Range<usize>| day.get(at)?.parse::<i16>().ok();
    let small = |at| i8::try_from(part(at)?).ok();
    Date::new(part(0..4)?, small(4..6)?, small(6..8)?).ok()
}

/// The minute that rows carry, and the day whose file they belong to: both of one moment, so that neither midnight nor a
/// clock change can part them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minute {
    /// Where the minute of the wall clock began, in seconds since 1970.
    pub second: i64,
    pub day: Date,
}

impl Minute {
    #[must_use]
    pub fn of(at: Timestamp, zone: &TimeZone) -> Self {
        let local = at.to_zoned(zone.clone());
        Self {
            second: at.as_second() - i64::from(local.second()),
            day: local.date(),
        }
    }
}

/// One row: a card and its first process, or nobody at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub timestamp: i64,
    pub holder: Option<Holder>,
}

/// The first process of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub user: String,
    pub pid: u32,
    /// The card by its place among the cards of the host.
    pub gpu: u32,
    /// The utilisation of the card, in percent; `None` where it could not be read.
    pub usage: Option<u32>,
}

/// What one look at the cards gives to a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Whole lines.
    pub text: String,
    /// Cards whose processes could not be read: of them nothing is said.
    pub unread: Vec<u32>,
}

/// The lines of a sample in a form.
#[must_use]
pub fn lines(
    sample: &Sample,
    form: Form,
    minute: Minute,
    thresholds: &gua_model::Thresholds,
) -> Lines {
    let unread = unread(sample);
    let text = match form {
        Form::Full => full::lines(sample, thresholds),
        Form::Classic => {
            let mut text = String::new();
            for row in rows(sample, minute) {
                push(&mut text, &row);
            }
            text
        }
    };
    Lines { text, unread }
}

/// The rows of a sample, as gpu_stats chooses them. Where nobody is seen and a card could not be read, there is none:
/// that nobody used a card is only said where it is known.
#[must_use]
pub fn rows(sample: &Sample, minute: Minute) -> Vec<Row> {
    let cards = sample
        .gpus
        .iter()
        .filter(|gpu| gpu.place.parent().is_none());
    let mut rows: Vec<Row> = cards
        .filter_map(|card| {
            let process = first(sample, card)?;
            Some(Row {
                timestamp: minute.second,
                holder: Some(Holder {
                    user: user(process).unwrap_or_else(|| gua_wire::users::UNKNOWN.to_owned()),
                    pid: process.pid.0,
                    gpu: card.index,
                    usage: card.util.ok().map(|util| util.get().into()),
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

/// The first process of a card or of its instances: one that can be named, else one that cannot.
fn first<'sample>(sample: &'sample Sample, card: &'sample Gpu) -> Option<&'sample Process> {
    let instances = sample
        .gpus
        .iter()
        .filter(|gpu| gpu.place.parent() == Some(&card.uuid));
    let all = || {
        card.processes
            .iter()
            .chain(instances.clone().flat_map(|gpu| &gpu.processes))
    };
    let named = all().find(|process| user(process).is_some());
    named.or_else(|| all().next())
}

/// The name of the user that a process runs as, which is what gpu_stats reads in `/proc`; where that cannot be seen, of
/// the one who is answerable for it.
fn user(process: &Process) -> Option<String> {
    let who = process.identity.as_ref().ok()?;
    match &who.own {
        Ok(own) => Some(name_of(own)),
        Err(_) => who.owner().map(|owner| name_of(&owner.user)),
    }
}

/// A user without a name is called by the number.
fn name_of(user: &User) -> String {
    match &user.name {
        Some(name) => sanitize(name),
        None => user.uid.0.to_string(),
    }
}

/// Cards whose list of processes is not known, by their numbers.
fn unread(sample: &Sample) -> Vec<u32> {
    let of_cards = sample.gpus.iter().filter(|gpu| {
        let by_instances = matches!(gpu.place, Place::Parent { instances: 1.. });
        gpu.compute_list.is_err() && gpu.processes.is_empty() && !by_instances
    });
    // A card that has fallen off the bus is a problem with a number and no more.
    let lost = sample
        .problems
        .iter()
        .filter(|problem| problem.gpu.is_none());
    let lost = lost.filter_map(|problem| problem.index);
    let lost = lost.filter(|index| sample.gpus.iter().all(|gpu| gpu.index != *index));
    let mut unread: Vec<u32> = of_cards.map(|gpu| gpu.index).chain(lost).collect();
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

/// A text as a field: in quotes where it would otherwise be two.
fn field(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    push_text(&mut bytes, text);
    String::from_utf8_lossy(&bytes).into_owned()
}
