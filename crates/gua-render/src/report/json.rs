//! The report as JSON: `gua.report.v1`. Keys carry their units, numbers have up to six decimals, and a value that was not
//! measured is null. `docs/schema/gua.report.v1.json` is its schema, `docs/report.md` lists the keys.

use gua_model::report::{Covered, GapRow, Hold, Note, Now, Refused, Report, SlotRow, Sums};
use gua_model::{CalendarUnit, CountGraphics, Micros, RollUp, State, UtilSource};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::by::{GpuRow, StateRow, UserRow, gpu_rows, state_rows, user_rows};
use super::{By, Page, labels, table};
use crate::document::{Hours, Kilowatthours, Percent, Rows, Share, Window, pretty};
use crate::language::Language;

/// The name of this format. A breaking change gets the next number.
pub const SCHEMA: &str = "gua.report.v1";

/// The whole report as JSON.
#[must_use]
pub fn json(page: &Page<'_>) -> String {
    pretty(&ReportDocument::new(page))
}

/// What `gua report --json` prints. Hours are GPU-hours, shares are fractions of one, times are in UTC.
/// Keys may be added under the same version; none changes its meaning.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReportDocument {
    schema: &'static str,
    gua_version: String,
    made_at: Timestamp,
    /// The zone of local days and hours.
    time_zone: String,
    /// Null before the first collector run.
    host: Option<HostDocument>,
    window: Window,
    thresholds: ThresholdsDocument,
    /// The person that the report covers, with `--user`.
    user: Option<String>,
    /// GPU-ticks.
    samples: u64,
    totals: Totals,
    equivalent_gpus: EquivalentGpus,
    coverage: CoverageDocument,
    gpus: Vec<GpuRow>,
    users: Vec<UserRow>,
    /// Null with `--user`.
    states: Option<Vec<StateRow>>,
    slots: Slots,
    heatmap: Heatmap,
    /// Processes that hold a GPU without using it at the last tick of the window.
    holders: Vec<Holder>,
    past_waste_count: usize,
    /// The longest earlier sessions without use, at most 1,000.
    past_waste: Vec<Holder>,
    /// The GPUs at the last tick of the window.
    now: Option<NowDocument>,
    /// Requests for GPUs that were not granted at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<RefusedDocument>,
    /// Qualifications of the numbers.
    notes: Vec<NoteDocument>,
    /// The table of `--by`.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<ByDocument>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct HostDocument {
    name: String,
    environment: String,
    driver_version: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ThresholdsDocument {
    active_util_percent: u8,
    held_mb: u64,
    count_graphics: bool,
}

/// Sums over all GPUs or, with `--user`, of one person.
#[derive(Debug, Serialize, JsonSchema)]
struct Totals {
    active_hours: Hours,
    idle_held_hours: Hours,
    truly_idle_hours: Hours,
    /// Held without a utilisation reading.
    held_unknown_hours: Hours,
    active_share: Option<Share>,
    idle_held_share: Option<Share>,
    truly_idle_share: Option<Share>,
    /// People's hours in full.
    held_hours: Hours,
    /// The same time divided equally among the people on a GPU.
    charged_hours: Option<Hours>,
    util_mean_percent: Option<Percent>,
    /// From the driver's counter.
    energy_kwh: Option<Kilowatthours>,
    /// Energy of GPUs while they were divided into MIG instances, which have no counter.
    mig_parent_energy_kwh: Option<Kilowatthours>,
    energy_known_hours: Hours,
}

/// The average number of such GPUs; null with `--user`.
#[derive(Debug, Serialize, JsonSchema)]
struct EquivalentGpus {
    idle_held: Option<crate::document::Number>,
    truly_idle: Option<crate::document::Number>,
}

/// `capacity_hours` = `observed_hours` + `gap_hours`.
#[derive(Debug, Serialize, JsonSchema)]
struct CoverageDocument {
    capacity_hours: Hours,
    observed_hours: Hours,
    gap_hours: Hours,
    observed_share: Option<Share>,
    /// Observed time based on the driver's sample buffer instead of one reading per tick.
    driver_samples_hours: Hours,
    old_overlap_hours: Hours,
    gaps: Vec<GapDocument>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct GapDocument {
    reason: &'static str,
    from: Timestamp,
    to: Timestamp,
    /// Number of GPUs affected.
    gpus: usize,
    hours: Hours,
    detail: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Slots {
    /// `hour`, `day`, `week` or `month`.
    unit: &'static str,
    rows: Vec<Slot>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Slot {
    from: Timestamp,
    to: Timestamp,
    gap_hours: Hours,
    #[serde(flatten)]
    totals: Totals,
}

/// Shares by weekday and hour of `time_zone`; null where nothing was observed.
#[derive(Debug, Serialize, JsonSchema)]
struct Heatmap {
    weekdays: [&'static str; 7],
    #[serde(skip_serializing_if = "Option::is_none")]
    active_share: Option<Vec<Vec<Option<Share>>>>,
    /// With `--user`.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_share: Option<Vec<Vec<Option<Share>>>>,
}

/// A process that held a GPU: a whole session, including the parts outside the window.
#[derive(Debug, Serialize, JsonSchema)]
struct Holder {
    gpu_uuid: String,
    gpu_index: Option<u32>,
    user: Option<String>,
    /// Whether the user is the login user.
    user_by_login: bool,
    process: Option<String>,
    workload: Option<String>,
    pid: Option<u32>,
    from: Timestamp,
    to: Timestamp,
    held_hours: Hours,
    idle_held_hours: Option<Hours>,
    util_mean_percent: Option<Percent>,
    /// Whose utilisation it is: `process` or `gpu`.
    util_of: Option<&'static str>,
    peak_memory_bytes: Option<u64>,
    samples: u64,
    /// Whether another process held the GPU at some of its ticks.
    shared: bool,
    /// Whether it is still there at the last tick.
    current: bool,
    /// Command that inspects the process.
    look: Option<String>,
    /// Command that stops the process.
    stop: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NowDocument {
    at: Timestamp,
    gpus: Vec<GpuNow>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct GpuNow {
    gpu_uuid: String,
    gpu_index: Option<u32>,
    gpu_name: Option<String>,
    /// One of the states in docs/states.md.
    state: &'static str,
    free: bool,
    util_percent: Option<i64>,
    memory_used_bytes: Option<u64>,
    memory_total_bytes: Option<u64>,
    users: Vec<String>,
    process: Option<String>,
    held_since: Option<Timestamp>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RefusedDocument {
    requests: usize,
    /// People whose idle-held GPUs blocked a request.
    in_the_way: Vec<BlockDocument>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct BlockDocument {
    holder: String,
    gpu_uuid: String,
    gpu_index: Option<u32>,
    asker: String,
    times: u64,
    waited_seconds: i64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NoteDocument {
    kind: &'static str,
    text: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ByDocument {
    what: &'static str,
    rows: Rows,
}

impl ReportDocument {
    fn new(page: &Page<'_>) -> Self {
        let report = page.report;
        let of_all = report.person.is_none();
        let holder = |hold: &Hold| Holder::new(page, hold);
        Self {
            schema: SCHEMA,
            gua_version: page.version.to_owned(),
            made_at: report.made,
            time_zone: page.zone_name(),
            host: report.host.as_ref().map(|host| HostDocument {
                name: host.name.clone(),
                environment: host.environment.clone(),
                driver_version: host.driver.clone(),
            }),
            window: report.window.into(),
            thresholds: ThresholdsDocument {
                active_util_percent: report.thresholds.active_util.get(),
                held_mb: report.thresholds.held_mb,
                count_graphics: report.thresholds.count_graphics == CountGraphics::Yes,
            },
            user: report.person.clone(),
            samples: match of_all {
                true => report.all.samples(),
                false => report.all.held.samples(),
            },
            totals: (&report.all).into(),
            equivalent_gpus: EquivalentGpus::new(report),
            coverage: (&report.coverage).into(),
            gpus: gpu_rows(report),
            users: user_rows(report),
            states: of_all.then(|| state_rows(report)),
            slots: Slots {
                unit: unit(report.unit),
                rows: report.slots.iter().map(Slot::from).collect(),
            },
            heatmap: Heatmap::new(report),
            holders: report.holders.iter().map(holder).collect(),
            past_waste_count: report.past_count,
            past_waste: report.past.iter().map(holder).collect(),
            now: report.now.as_ref().map(NowDocument::from),
            refused: report.refused.as_ref().map(RefusedDocument::from),
            notes: report
                .notes
                .iter()
                .map(|note| NoteDocument {
                    kind: kind(note),
                    text: labels::note(page, note, Language::English),
                })
                .collect(),
            by: page.by.map(|by| ByDocument {
                what: name(by),
                rows: Rows(table(report, by)),
            }),
        }
    }
}

impl EquivalentGpus {
    fn new(report: &Report) -> Self {
        let of = |class| {
            let of_all = report.person.is_none();
            of_all.then(|| crate::document::Number(report.equivalent(class)))
        };
        Self {
            idle_held: of(RollUp::IdleHeld),
            truly_idle: of(RollUp::TrulyIdle),
        }
    }
}

impl Heatmap {
    fn new(report: &Report) -> Self {
        let cells = report.heat.cells.iter().map(|day| {
            let hours = day.iter().map(|cell| cell.share().map(Share));
            hours.collect::<Vec<_>>()
        });
        let cells = cells.collect::<Vec<_>>();
        let (active_share, held_share) = match report.person {
            None => (Some(cells), None),
            Some(_) => (None, Some(cells)),
        };
        Self {
            weekdays: ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"],
            active_share,
            held_share,
        }
    }
}

impl From<&Sums> for Totals {
    fn from(sums: &Sums) -> Self {
        let share = |class| sums.share(class).map(Share);
        let has_own = sums.observed() > Micros(0);
        Self {
            active_hours: Hours(sums.hours(RollUp::Active)),
            idle_held_hours: Hours(sums.hours(RollUp::IdleHeld)),
            truly_idle_hours: Hours(sums.hours(RollUp::TrulyIdle)),
            held_unknown_hours: Hours(sums.unknown_hours()),
            active_share: share(RollUp::Active),
            idle_held_share: share(RollUp::IdleHeld),
            truly_idle_share: share(RollUp::TrulyIdle),
            held_hours: Hours(sums.held.hours()),
            charged_hours: has_own.then(|| sums.held.own.charged.into()),
            util_mean_percent: sums.util().map(Percent),
            energy_kwh: sums.counted_energy().map(Kilowatthours::from),
            mig_parent_energy_kwh: (sums.set_aside_energy.0 > 0)
                .then(|| sums.set_aside_energy.into()),
            energy_known_hours: sums.energy_known.into(),
        }
    }
}

impl From<&SlotRow> for Slot {
    fn from(slot: &SlotRow) -> Self {
        Self {
            from: slot.period.from(),
            to: slot.period.to(),
            gap_hours: slot.gap.into(),
            totals: (&slot.sums).into(),
        }
    }
}

impl From<&Covered> for CoverageDocument {
    fn from(covered: &Covered) -> Self {
        let gap = |gap: &GapRow| GapDocument {
            reason: match gap.late {
                true => "late-ticks",
                false => gap.reason.as_str(),
            },
            from: gap.period.from(),
            to: gap.period.to(),
            gpus: gap.cards,
            hours: gap.micros.into(),
            detail: gap.detail.clone(),
        };
        Self {
            capacity_hours: covered.capacity.into(),
            observed_hours: covered.observed.into(),
            gap_hours: covered.gap.into(),
            observed_share: covered.share().map(Share),
            driver_samples_hours: covered.buffered.into(),
            old_overlap_hours: covered.overlap.into(),
            gaps: covered.gaps.iter().map(gap).collect(),
        }
    }
}

impl Holder {
    fn new(page: &Page<'_>, hold: &Hold) -> Self {
        let (look, stop) = labels::commands(page, hold).unzip();
        Self {
            gpu_uuid: hold.gpu.to_string(),
            gpu_index: hold.index,
            user: hold.owner.clone(),
            user_by_login: hold.by_login,
            process: hold.process.clone(),
            workload: hold.workload.clone(),
            pid: hold.pid.map(|pid| pid.0),
            from: hold.period.from(),
            to: hold.whole().to(),
            held_hours: hold.whole().micros().into(),
            idle_held_hours: hold.idle_held.map(Hours::from),
            util_mean_percent: hold.util.map(|(util, _)| Percent(util)),
            util_of: hold.util.map(|(_, source)| match source {
                UtilSource::Process => "process",
                UtilSource::Card => "gpu",
            }),
            peak_memory_bytes: hold.peak_memory.map(|memory| memory.0),
            samples: hold.samples,
            shared: hold.shared,
            current: hold.current,
            look,
            stop,
        }
    }
}

impl From<&Now> for NowDocument {
    fn from(now: &Now) -> Self {
        let gpus = now.cards.iter().map(|card| GpuNow {
            gpu_uuid: card.gpu.to_string(),
            gpu_index: card.index,
            gpu_name: card.name.clone(),
            state: card.state.as_str(),
            free: card.state == State::TrulyIdle,
            util_percent: card.util,
            memory_used_bytes: card.memory_used.map(|memory| memory.0),
            memory_total_bytes: card.memory_total.map(|memory| memory.0),
            users: card.owners.clone(),
            process: card.process.clone(),
            held_since: card.held_since,
        });
        Self {
            at: now.at,
            gpus: gpus.collect(),
        }
    }
}

impl From<&Refused> for RefusedDocument {
    fn from(refused: &Refused) -> Self {
        let rows = refused.in_the_way.iter().map(|row| BlockDocument {
            holder: row.holder.clone(),
            gpu_uuid: row.gpu.to_string(),
            gpu_index: row.index,
            asker: row.asker.clone(),
            times: row.times,
            waited_seconds: row.waited.as_secs(),
        });
        Self {
            requests: refused.requests,
            in_the_way: rows.collect(),
        }
    }
}

/// The name of a calendar unit in documents.
pub(super) fn unit(unit: CalendarUnit) -> &'static str {
    match unit {
        CalendarUnit::Hour => "hour",
        CalendarUnit::Day => "day",
        CalendarUnit::Week => "week",
        CalendarUnit::Month => "month",
    }
}

fn kind(note: &Note) -> &'static str {
    match note {
        Note::Widened { .. } => "widened",
        Note::Damaged { .. } => "damaged-ticks",
        Note::Overlap { .. } => "old-ticks-overlap",
        Note::Mixed => "mixed",
        Note::OldLeftOut { .. } => "old-rows-left-out",
        Note::SessionsByFile => "sessions-by-file",
        Note::GraphicsLeftOut => "graphics-left-out",
    }
}

fn name(by: By) -> &'static str {
    match by {
        By::User => "user",
        By::Gpu => "gpu",
        By::Day => "day",
        By::Hour => "hour",
        By::Week => "week",
        By::Month => "month",
        By::State => "state",
    }
}
