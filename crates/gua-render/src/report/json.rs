//! The report as JSON: `gua.report.v1`. Keys carry their units, numbers have up to six decimals, and a value that was not
//! measured is null. `docs/schema/gua.report.v1.json` is its schema, `docs/report.md` lists the keys.

use gua_model::price::{Cost, Money};
use gua_model::report::{
    BlockRow, Covered, GapRow, GpuStatus, Hold, Host, Note, Now, Refused, Report, SlotRow, Sums,
};
use gua_model::{Micros, RollUp};
use jiff::Timestamp;

use super::by::{GpuRow, IdleTime, StateRow, UserRow, gpu_rows, state_rows, user_rows};
use super::compare::was_observed;
use super::{By, Page, labels, page_table};
use crate::document::{
    Hours, Kilowatthours, Number, Percent, Rows, Share, Window, documents, pretty,
};
use crate::language::Language;
use crate::sample::ThresholdsDocument;

/// The name of this format. A breaking change gets the next number.
pub const SCHEMA: &str = "gua.report.v1";

/// The whole report as JSON.
pub fn json(page: &Page<'_>) -> String {
    pretty(&ReportDocument::new(page))
}

documents! {
    /// Output of `gua report --json`. Hours are GPU-hours, shares are fractions of one, times are in UTC. Keys may be
    /// added under the same version; none changes its meaning.
    pub struct ReportDocument from (page: &Page<'_>) {
        schema: &'static str = SCHEMA,
        gua_version: String = page.version.to_owned(),
        made_at: Timestamp = page.report.made,
        /// The zone of local days and hours.
        time_zone: String = page.zone_name(),
        /// Null before the first collector run.
        host: Option<HostDocument> = page.report.host.as_ref().map(HostDocument::new),
        window: Window = page.report.window.into(),
        thresholds: ThresholdsDocument = ThresholdsDocument::new(&page.report.thresholds),
        /// The person that the report covers, with `--user`.
        user: Option<String> = page.report.person.clone(),
        /// GPU-ticks.
        samples: u64 = match page.report.person {
            None => page.report.all.samples(),
            Some(_) => page.report.all.held.samples(),
        },
        totals: Totals = Totals::new(&page.report.all),
        equivalent_gpus: EquivalentGpus = EquivalentGpus::new(page.report),
        coverage: CoverageDocument = CoverageDocument::new(&page.report.coverage),
        gpus: Vec<GpuRow> = gpu_rows(page.report),
        users: Vec<UserRow> = user_rows(page.report),
        /// Null with `--user`.
        states: Option<Vec<StateRow>> = page.report.person.is_none().then(|| state_rows(page.report)),
        slots: Slots = Slots::new(page.report),
        heatmap: Heatmap = Heatmap::new(page.report),
        /// Processes on GPUs that are idle-held at the last tick of the window, the longest idle first.
        holders: Vec<Holder> = holders(page, page.report.idle_now().into_iter()),
        past_waste_count: usize = page.report.past_count,
        /// The longest earlier sessions without use, at most 1,000.
        past_waste: Vec<Holder> = holders(page, page.report.past.iter()),
        /// The GPUs at the last tick of the window.
        now: Option<NowDocument> = page.report.now.as_ref().map(NowDocument::new),
        /// Requests for GPUs that were not granted at once.
        #[serde(skip_serializing_if = "Option::is_none")]
        refused: Option<RefusedDocument> = page.report.refused.as_ref().map(RefusedDocument::new),
        /// Qualifications of the numbers.
        notes: Vec<NoteDocument> = {
            let notes = page.report.notes.iter();
            notes.map(|note| NoteDocument::new(page, note)).collect()
        },
        /// The table of `--by`.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<ByDocument> = page.by.map(|by| ByDocument::new(page, by)),
        /// The period before, with `--compare`.
        #[serde(skip_serializing_if = "Option::is_none")]
        previous: Option<PreviousDocument> = page.previous.map(PreviousDocument::new),
        /// Costs in each currency, if the configuration has prices.
        #[serde(skip_serializing_if = "Option::is_none")]
        costs: Option<Vec<CostDocument>> =
            page.costs.map(|costs| costs.currencies.iter().map(CostDocument::new).collect()),
        /// Hours in which a GPU was held and no price applied, if the configuration has prices.
        #[serde(skip_serializing_if = "Option::is_none")]
        unpriced_hours: Option<Hours> = page.costs.map(|costs| costs.unpriced.into()),
    }

    /// The period before the window: as many months or days, or the same length of time.
    struct PreviousDocument from (report: &Report) {
        window: Window = report.window.into(),
        /// Null if nothing was observed.
        totals: Option<Totals> = was_observed(report).then(|| Totals::new(&report.all)),
        equivalent_gpus: EquivalentGpus = EquivalentGpus::new(report),
        coverage: CoverageDocument = CoverageDocument::new(&report.coverage),
        gpus: Vec<GpuRow> = gpu_rows(report),
        users: Vec<UserRow> = user_rows(report),
    }

    /// Costs in one currency.
    struct CostDocument from (cost: &Cost) {
        currency: String = cost.currency.clone(),
        /// GPU time that was held.
        held: Number = Number(cost.held.units()),
        /// Of that, idle-held time.
        idle_held: Number = Number(cost.idle_held.units()),
        /// Charged hours of each person.
        users: Vec<PersonCostDocument> = {
            let people = cost.people.iter();
            people.map(|(user, charged)| PersonCostDocument::new(user, *charged)).collect()
        },
    }

    struct PersonCostDocument from (user: &str, charged: Money) {
        user: String = user.to_owned(),
        charged: Number = Number(charged.units()),
    }

    struct HostDocument from (host: &Host) {
        name: String = host.name.clone(),
        environment: String = host.environment.clone(),
        driver_version: Option<String> = host.driver.clone(),
    }

    /// Sums over all GPUs or, with `--user`, of one person.
    struct Totals from (sums: &Sums) {
        active_hours: Hours = Hours(sums.hours(RollUp::Active)),
        idle_held_hours: Hours = Hours(sums.hours(RollUp::IdleHeld)),
        truly_idle_hours: Hours = Hours(sums.hours(RollUp::TrulyIdle)),
        /// Held without a utilisation reading.
        held_unknown_hours: Hours = Hours(sums.unknown_hours()),
        active_share: Option<Share> = sums.share(RollUp::Active).map(Share),
        idle_held_share: Option<Share> = sums.share(RollUp::IdleHeld).map(Share),
        truly_idle_share: Option<Share> = sums.share(RollUp::TrulyIdle).map(Share),
        /// People's hours in full.
        held_hours: Hours = Hours(sums.held.hours()),
        /// The same time divided equally among the people on a GPU.
        charged_hours: Option<Hours> =
            (sums.observed() > Micros(0)).then(|| sums.held.charged.into()),
        util_mean_percent: Option<Percent> = sums.util().map(Percent),
        /// From the driver's counter.
        energy_kwh: Option<Kilowatthours> = sums.counted_energy().map(Kilowatthours::from),
        /// Energy of GPUs while they were divided into MIG instances, which have no counter.
        mig_parent_energy_kwh: Option<Kilowatthours> =
            (sums.undivided_energy.0 > 0).then(|| sums.undivided_energy.into()),
        energy_known_hours: Hours = sums.energy_known.into(),
    }

    /// The average number of such GPUs; null with `--user`.
    struct EquivalentGpus from (report: &Report) {
        idle_held: Option<Number> = equivalent(report, RollUp::IdleHeld),
        truly_idle: Option<Number> = equivalent(report, RollUp::TrulyIdle),
    }

    /// `capacity_hours` = `observed_hours` + `gap_hours`.
    struct CoverageDocument from (covered: &Covered) {
        capacity_hours: Hours = covered.capacity.into(),
        observed_hours: Hours = covered.observed.into(),
        gap_hours: Hours = covered.gap.into(),
        observed_share: Option<Share> = covered.share().map(Share),
        /// Observed time based on the driver's sample buffer instead of one reading per tick.
        driver_samples_hours: Hours = covered.buffered.into(),
        old_overlap_hours: Hours = covered.overlap.into(),
        gaps: Vec<GapDocument> = covered.gaps.iter().map(GapDocument::new).collect(),
    }

    struct GapDocument from (gap: &GapRow) {
        reason: &'static str = if gap.late { "late-ticks" } else { gap.reason.as_str() },
        from: Timestamp = gap.period.from(),
        to: Timestamp = gap.period.to(),
        /// Number of GPUs affected.
        gpus: usize = gap.gpus,
        hours: Hours = gap.micros.into(),
        detail: Option<String> = gap.detail.clone(),
    }

    struct Slots from (report: &Report) {
        /// `hour`, `day`, `week` or `month`.
        unit: &'static str = report.unit.as_str(),
        rows: Vec<Slot> = report.slots.iter().map(Slot::new).collect(),
    }

    struct Slot from (slot: &SlotRow) {
        from: Timestamp = slot.period.from(),
        to: Timestamp = slot.period.to(),
        gap_hours: Hours = slot.gap.into(),
        #[serde(flatten)]
        totals: Totals = Totals::new(&slot.sums),
    }

    /// Shares by weekday and hour of `time_zone`; null where nothing was observed.
    struct Heatmap from (report: &Report) {
        weekdays: [&'static str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"],
        #[serde(skip_serializing_if = "Option::is_none")]
        active_share: Option<Vec<Vec<Option<Share>>>> =
            report.person.is_none().then(|| week(report)),
        /// With `--user`.
        #[serde(skip_serializing_if = "Option::is_none")]
        held_share: Option<Vec<Vec<Option<Share>>>> = report.person.as_ref().map(|_| week(report)),
    }

    /// A process that held a GPU: a whole session, including the parts outside the window.
    struct Holder from (page: &Page<'_>, hold: &Hold) {
        gpu_uuid: String = hold.gpu.to_string(),
        gpu_index: Option<u32> = hold.index,
        user: Option<String> = hold.owner.clone(),
        /// Whether the user is the login user.
        user_by_login: bool = hold.by_login,
        process: Option<String> = hold.process.clone(),
        workload: Option<String> = hold.workload.clone(),
        pid: Option<u32> = hold.pid.map(|pid| pid.0),
        from: Timestamp = hold.period.from(),
        to: Timestamp = hold.whole().to(),
        held_hours: Hours = hold.whole().micros().into(),
        idle_held_hours: Option<Hours> = hold.idle_held.map(Hours::from),
        util_mean_percent: Option<Percent> = hold.util.map(|(util, _)| Percent(util)),
        /// Source of the utilisation: `process` or `gpu`.
        util_of: Option<&'static str> = hold.util.map(|(_, source)| source.as_str()),
        peak_memory_bytes: Option<u64> = hold.peak_memory.map(|memory| memory.0),
        samples: u64 = hold.samples,
        /// Whether another process held the GPU at some of its ticks.
        shared: bool = hold.shared,
        /// Whether it is still there at the last tick.
        current: bool = hold.current,
        #[serde(flatten)]
        idle: IdleTime = IdleTime::new(hold.idle, page.last()),
        /// Command that inspects the process.
        look: Option<String> = labels::advice(page, hold).map(|commands| commands.look),
        /// Command that stops the process.
        stop: Option<String> = labels::advice(page, hold).and_then(|commands| commands.stop),
    }

    struct NowDocument from (now: &Now) {
        at: Timestamp = now.at,
        gpus: Vec<GpuNow> = now.gpus.iter().map(|gpu| GpuNow::new(gpu, now.at)).collect(),
    }

    struct GpuNow from (gpu: &GpuStatus, at: Timestamp) {
        gpu_uuid: String = gpu.gpu.to_string(),
        gpu_index: Option<u32> = gpu.index,
        gpu_name: Option<String> = gpu.name.clone(),
        /// One of the states in docs/states.md.
        state: &'static str = gpu.state.as_str(),
        /// Whether it was free by the rule of `gua available`.
        free: bool = gpu.is_free,
        util_percent: Option<i64> = gpu.util,
        memory_used_bytes: Option<u64> = gpu.memory_used.map(|memory| memory.0),
        memory_total_bytes: Option<u64> = gpu.memory_total.map(|memory| memory.0),
        users: Vec<String> = gpu.owners.clone(),
        process: Option<String> = gpu.process.clone(),
        held_since: Option<Timestamp> = gpu.held_since,
        #[serde(flatten)]
        idle: IdleTime = IdleTime::new(gpu.idle, at),
    }

    struct RefusedDocument from (refused: &Refused) {
        requests: usize = refused.requests,
        /// People whose idle-held GPUs blocked a request.
        in_the_way: Vec<BlockDocument> = refused.in_the_way.iter().map(BlockDocument::new).collect(),
    }

    struct BlockDocument from (row: &BlockRow) {
        holder: String = row.holder.clone(),
        gpu_uuid: String = row.gpu.to_string(),
        gpu_index: Option<u32> = row.index,
        requester: String = row.requester.clone(),
        times: u64 = row.times,
        waited_seconds: i64 = row.waited.as_secs(),
    }

    struct NoteDocument from (page: &Page<'_>, note: &Note) {
        kind: &'static str = kind(note),
        text: String = labels::note(page, note, Language::English),
    }

    struct ByDocument from (page: &Page<'_>, by: By) {
        what: &'static str = by.as_str(),
        rows: Rows = Rows(page_table(page, by)),
    }
}

fn holders<'a>(page: &Page<'_>, holds: impl Iterator<Item = &'a Hold>) -> Vec<Holder> {
    holds.map(|hold| Holder::new(page, hold)).collect()
}

fn equivalent(report: &Report, class: RollUp) -> Option<Number> {
    report
        .person
        .is_none()
        .then(|| Number(report.equivalent(class)))
}

fn week(report: &Report) -> Vec<Vec<Option<Share>>> {
    let days = report.heat.cells.iter();
    days.map(|day| day.iter().map(|cell| cell.share().map(Share)).collect())
        .collect()
}

fn kind(note: &Note) -> &'static str {
    match note {
        Note::Widened { .. } => "widened",
        Note::Damaged { .. } => "damaged-ticks",
        Note::DamagedRows { .. } => "damaged-rows",
        Note::Overlap { .. } => "old-ticks-overlap",
        Note::Mixed => "mixed",
        Note::OldLeftOut { .. } => "old-rows-left-out",
        Note::SessionsByFile => "sessions-by-file",
        Note::GraphicsLeftOut => "graphics-left-out",
        Note::Unbalanced { .. } => "unbalanced",
    }
}
