//! A history in pages, for a process that may not open it: the side of the service, which reads the records.
//!
//! A page has imported rows or ticks of gua. It is made from records, so a view that hides other people also hides them here.
//! Records of imported rows lack the row numbers and usage states, which only gpu-usage-audit's own reports need.

use std::time::Duration;

use gua_model::legacy::{LegacyMoment, LegacyProcess, LegacyRun};
use gua_model::{GpuUuid, Period, ProcessKind, Tick};
use gua_query::records::ImportedFacts;
use gua_query::{QueryError, Records};
use gua_store::imported::{GpuRow, ProcessRow, Texts};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// Number of rows after which a page ends. Most rows take at most 200 bytes.
const MAX_ROWS: usize = if cfg!(test) { 100 } else { 100_000 };

/// Request for a page.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct OldPageQuestion {
    /// Start of the page; `None` for the first one.
    pub from: Option<OldPlace>,
}

/// Position between two pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldPlace {
    stage: Stage,
    at: Timestamp,
}

/// Parts of a history, in the order in which they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    Imported,
    Own,
}

/// A part of a history.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct OldPage {
    /// Facts about imported rows; only in the first page.
    pub(super) facts: Option<ImportedFacts>,
    /// Texts of the imported rows, in the order of their ids.
    pub(super) texts: Vec<String>,
    pub(super) imported: Vec<OldMoment>,
    pub(super) own: Vec<Tick>,
    pub(super) damaged_ticks: u64,
    /// Start of the next page; `None` for the last one.
    pub next: Option<OldPlace>,
}

/// All imported rows of one time.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OldMoment {
    pub(super) at: Timestamp,
    pub(super) gpus: Vec<(OldRun, GpuRow)>,
    pub(super) processes: Vec<(OldRun, ProcessRow)>,
}

/// A collector run of an imported file: its number, if it has one, and its interval.
pub(super) type OldRun = (Option<i64>, Duration);

/// Reads a page. It ends early if `is_late` returns true, but not before its first day or quarter hour.
pub fn old_page(
    records: &dyn Records,
    question: OldPageQuestion,
    is_late: impl Fn() -> bool,
) -> Result<OldPage, QueryError> {
    let mut page = OldPage::default();
    let mut texts = Texts::default();
    let facts = records.imported_facts()?;
    let begin = question.from.unwrap_or(OldPlace {
        stage: match facts {
            Some(_) => Stage::Imported,
            None => Stage::Own,
        },
        at: Timestamp::MIN,
    });
    if question.from.is_none() {
        page.damaged_ticks = records.absurd_ticks()?.into();
        page.facts = facts;
    }
    let days = records.days_with_rows()?;
    let raw_from = records.raw_from()?.unwrap_or(Timestamp::MIN);
    let mut rows = 0;
    let (imported, own_from) = match begin.stage {
        Stage::Imported => (windows(&days, Stage::Imported, begin.at), raw_from),
        Stage::Own => (Vec::new(), begin.at.max(raw_from)),
    };
    let imported = imported.into_iter().map(|window| (Stage::Imported, window));
    let own = windows(&days, Stage::Own, own_from).into_iter();
    let own = own.map(|window| (Stage::Own, window));
    for (stage, window) in imported.chain(own) {
        if rows >= MAX_ROWS || (rows > 0 && is_late()) {
            let at = window.from();
            page.next = Some(OldPlace { stage, at });
            break;
        }
        let left = MAX_ROWS - rows;
        let (taken, rest) = match stage {
            Stage::Imported => {
                let mut moments = Vec::new();
                records.imported_moments(window, &mut |moment| {
                    moments.push(OldMoment::of(moment, &mut texts));
                })?;
                // Several imported files may cover one day.
                moments.sort_by_key(|moment| moment.at);
                let taken = take(&mut moments, left, |moment| {
                    (moment.at, moment.gpus.len() + moment.processes.len())
                });
                page.imported.append(&mut moments);
                taken
            }
            Stage::Own => {
                let mut ticks = Vec::new();
                let damaged = records.ticks(window, &mut |tick| ticks.push(tick))?;
                // If a page begins within a quarter hour, the page before has counted the damaged ticks of that quarter.
                if is_quarter(window.from()) {
                    page.damaged_ticks += u64::from(damaged);
                }
                let taken = take(&mut ticks, left, |tick| {
                    let gpus = &tick.sample.gpus;
                    let processes: usize = gpus.iter().map(|gpu| gpu.processes.len()).sum();
                    (tick.sample.at, 1 + gpus.len() + processes)
                });
                page.own.append(&mut ticks);
                taken
            }
        };
        rows += taken;
        if let Some(at) = rest {
            page.next = Some(OldPlace { stage, at });
            break;
        }
    }
    page.texts = texts.all().iter().map(|text| text.to_string()).collect();
    Ok(page)
}

/// Returns the periods from a time on that are read at once. Ticks of gua may be a fraction of a second apart.
fn windows(days: &std::collections::BTreeSet<Date>, stage: Stage, from: Timestamp) -> Vec<Period> {
    let start = |day: Date| {
        day.to_zoned(TimeZone::UTC)
            .map_or(Timestamp::MAX, |it| it.timestamp())
    };
    let from_on = Period::new(from, Timestamp::MAX);
    let days = days.iter().filter_map(|day| {
        let end = day.tomorrow().map_or(Timestamp::MAX, start);
        Period::new(start(*day), end).overlap(from_on)
    });
    match stage {
        Stage::Imported => days.collect(),
        Stage::Own => days
            .flat_map(|day| day.quarters().map(|(_, window)| window))
            .collect(),
    }
}

fn is_quarter(at: Timestamp) -> bool {
    gua_model::Quarter::of(at).period().from() == at
}

/// Truncates the items to about `most` rows, without separating items of one time. Returns the number of rows that are left, and
/// the time of the first item that was dropped.
fn take<T>(
    items: &mut Vec<T>,
    most: usize,
    of: impl Fn(&T) -> (Timestamp, usize),
) -> (usize, Option<Timestamp>) {
    let mut rows = 0;
    let mut last = None;
    for place in 0..items.len() {
        let (at, more) = of(&items[place]);
        if rows > 0 && rows + more > most && last != Some(at) {
            items.truncate(place);
            return (rows, Some(at));
        }
        rows += more;
        last = Some(at);
    }
    (rows, None)
}

impl OldMoment {
    fn of(moment: &LegacyMoment<'_>, texts: &mut Texts) -> Self {
        let mut gpus = Vec::new();
        let mut processes = Vec::new();
        for tick in moment.ticks {
            let run = (tick.run.run, tick.run.interval);
            let row = GpuRow {
                gpu: texts.id(tick.gpu.as_str()),
                util_pct: tick.util,
                usage_state: None,
                gpu_index: tick.index,
                memory_used_mb: tick.memory_used_mb,
                temperature_c: tick.temperature_c,
                power_w: tick.power_w,
            };
            gpus.push((run, row));
            let more = tick.more_rows.iter();
            gpus.extend(more.map(|&util_pct| (run, GpuRow { util_pct, ..row })));
            let rows = tick.processes.iter();
            processes.extend(rows.map(|row| (run, process_row(tick.gpu, row, texts))));
        }
        // Their run is not known.
        let LegacyRun { run, interval } = LegacyRun::NONE;
        for (gpu, row) in moment.strays {
            processes.push(((run, interval), process_row(gpu, row, texts)));
        }
        Self {
            at: moment.at,
            gpus,
            processes,
        }
    }
}

fn process_row(gpu: &GpuUuid, row: &LegacyProcess<'_>, texts: &mut Texts) -> ProcessRow {
    let gpu = texts.id(gpu.as_str());
    let mut text = |text: Option<&str>| text.map(|text| texts.id(text));
    ProcessRow {
        gpu,
        pid: row.pid,
        mem_used_mb: row
            .memory_mb
            .map(|memory| i64::try_from(memory).unwrap_or(i64::MAX)),
        gpu_index: row.index,
        loginuid_user: text(row.identity),
        owner_user: text(row.owner),
        process_name: text(row.name),
        process_type: match row.kind {
            ProcessKind::Compute | ProcessKind::Both => None,
            ProcessKind::Graphics => text(Some("graphics")),
        },
    }
}
