//! The numbers of a report from our own history: totals in one pass, then who is there now.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gua_model::report::fold::{Question, ReportFold};
use gua_model::report::{CardNow, CardRow, Covered, Hold, Host, IntervalUse, Note, Now, PersonNames, Report, SlotRow, UNKNOWN, gap_rows};
use gua_model::{
    CalendarUnit, Coverage, GpuUuid, KnownCard, Ledger, Micros, Missing, OwnerSource, Period, Session, Thresholds, classify, slots,
};
use gua_store::{CardInfo, History, StoredTick};
use jiff::Timestamp;

use super::ask::Ask;
use super::longest::Longest;
use super::old::{self, OldPart};
use crate::failure::Failure;

/// How many sessions the chart has room for.
const CHARTED: usize = 400;
/// How many ended holders are kept; their number is known beyond that.
const KEPT: usize = 1000;

/// Reads everything that a report says from a history of ours.
pub fn of_history(history: &History, ask: &Ask) -> anyhow::Result<Report> {
    let cards = history.cards()?;
    let sources = history.old_sources()?;
    let people = history.people()?;
    let own = history.thresholds()?;
    let thresholds = ask.thresholds.over(own);
    let old_cards = if sources.is_empty() { BTreeMap::new() } else { history.old_cards()? };
    let known: BTreeMap<GpuUuid, CardInfo> = cards.into_iter().map(|card| (card.uuid.clone(), card)).collect();
    let gpus = choose(&ask.gpus, &known, &old_cards)?;
    let began = known.values().map(|card| card.first_seen).min();
    let began = began.into_iter().chain(history.old_began()?).min();
    let window = ask.window;
    let seen = Period::new(began.unwrap_or(window.to()).max(window.from()), window.to());
    let question = Question {
        zone: ask.zone.clone(),
        gpus,
        person: ask.user.clone(),
        unit: ask.unit(seen),
        interval: ask.interval,
        by_hour: ask.by == Some(gua_render::report::By::Hour),
    };
    let firsts = known.iter().map(|(uuid, card)| {
        let known = KnownCard { first: card.first_seen, parent: card.parent.clone() };
        (uuid.clone(), known)
    });
    let firsts: BTreeMap<_, _> = firsts.collect();
    let outages = history.outages(window)?;
    let mut names = PersonNames::new(people);
    let folded = history.fold_totals(
        window,
        Some(thresholds),
        |window| (ReportFold::new(question, names.clone()), Ledger::new(window, firsts)),
        |(fold, ledger), quarter, cards| {
            ledger.push_quarter(cards);
            for card in cards {
                fold.own(quarter, &card.gpu, &card.total);
            }
        },
    )?;
    let (mut fold, ledger) = folded.sum;
    let mut old = OldPart::new(thresholds, ask);
    if !sources.is_empty() {
        history.old_ticks(old::window(ask), &mut |tick| old.push(tick, &mut fold))?;
        old.finish(&mut fold);
    }
    let host_observed = ledger.host_observed();
    let coverage = ledger.finish(&outages);
    let wanted = |gpu: &GpuUuid| fold.question().gpus.as_ref().is_none_or(|gpus| gpus.contains(gpu));
    let coverage: BTreeMap<_, _> = coverage.into_iter().filter(|(gpu, _)| wanted(gpu)).collect();
    for (gpu, covered) in &coverage {
        anyhow::ensure!(covered.balance() == 0, "the books of {gpu} do not balance; please report this");
    }

    let mut holds = HoldLists::default();
    let last = history.last_tick()?.filter(|tick| window.contains(tick.tick.sample.at));
    let last_at = last.as_ref().map(|tick| tick.tick.sample.at);
    let mut since: HashMap<GpuUuid, Timestamp> = HashMap::new();
    history.each_session(window, |session| {
        if !wanted(&session.key.gpu) {
            return;
        }
        let hold = hold(session, &known, &mut names, last_at);
        if ask.user.as_deref().is_some_and(|user| hold.owner.as_deref().unwrap_or(UNKNOWN) != user) {
            return;
        }
        if hold.current {
            let first = since.entry(session.key.gpu.clone()).or_insert(session.from);
            *first = session.from.min(*first);
        }
        holds.push(hold, &thresholds);
    })?;
    let host = host_of(history, last.as_ref())?.or_else(|| old.host(history));
    let mut notes = Vec::new();
    if folded.window != window && seen.micros() > Micros(0) {
        notes.push(Note::Widened { asked: window });
    }
    if folded.ticks_damaged > 0 {
        notes.push(Note::Damaged { ticks: folded.ticks_damaged });
    }
    if fold.all.observed() > Micros(0) && old.has_any() {
        notes.push(Note::Mixed);
    }
    let now = last.map(|last| now_of(&last, &thresholds, &since, &mut names, &wanted));
    let parts = Parts {
        ask,
        thresholds,
        window: folded.window,
        seen,
        outages: &outages,
        coverage,
        host_observed,
        host,
        now,
        notes,
    };
    let info = |gpu: &GpuUuid| match known.get(gpu) {
        Some(card) => (card.index, card.name.clone()),
        None => old_cards.get(gpu).cloned().unwrap_or_default(),
    };
    Ok(parts.into_report(fold, holds, old, &info))
}

/// What both kinds of histories come to, before it is laid out.
pub(super) struct Parts<'a> {
    pub(super) ask: &'a Ask,
    pub(super) thresholds: Thresholds,
    pub(super) window: Period,
    /// The part of the window in which anything was known.
    pub(super) seen: Period,
    pub(super) outages: &'a [gua_model::Outage],
    pub(super) coverage: BTreeMap<GpuUuid, Coverage>,
    pub(super) host_observed: Micros,
    pub(super) host: Option<Host>,
    pub(super) now: Option<Now>,
    pub(super) notes: Vec<Note>,
}

impl Parts<'_> {
    /// Lays the sums out in the order in which every format shows them.
    pub(super) fn into_report(
        self,
        fold: ReportFold,
        holds: HoldLists,
        card: &dyn Fn(&GpuUuid) -> (Option<u32>, Option<String>),
    ) -> Report {
        let ask = self.ask;
        let mut gaps = Vec::new();
        let mut whole = Covered {
            host_observed: self.host_observed,
            ..Covered::default()
        };
        let mut cards = Vec::new();
        let everyone: BTreeSet<&GpuUuid> = fold.cards.keys().chain(self.coverage.keys()).collect();
        for gpu in everyone {
            let covered = self.coverage.get(gpu).map(covered).unwrap_or_default();
            whole.add(&covered);
            gaps.extend(self.coverage.get(gpu).into_iter().flat_map(|coverage| &coverage.gaps));
            let (index, name) = card(gpu);
            cards.push(CardRow {
                gpu: gpu.clone(),
                index,
                name,
                sums: fold.cards.get(gpu).cloned().unwrap_or_default(),
                covered,
            });
        }
        whole.gaps = gap_rows(gaps.iter().copied(), self.outages);
        // A card that was neither seen nor expected in the window has no row.
        cards.retain(|card| card.covered.capacity > Micros(0) || card.sums.samples() > 0);
        let unit = fold.question().unit;
        let people = fold.people.rows();
        let names: Vec<String> = people.iter().map(|person| person.name.clone()).collect();
        let uuids: Vec<GpuUuid> = cards.iter().map(|card| card.gpu.clone()).collect();
        let (holders, past, past_count, sessions) = holds.finish();
        Report {
            host: self.host,
            window: self.window,
            thresholds: self.thresholds,
            made: ask.now,
            person: ask.user.clone(),
            slots: slot_rows(&fold, self.seen, unit, &gaps),
            hours: fold.hours(&uuids, &names),
            heat: fold.heat.clone(),
            all: fold.all,
            cards,
            people,
            unit,
            coverage: whole,
            holders,
            past,
            past_count,
            sessions,
            now: self.now,
            interval: ask.interval.map_or(IntervalUse::Recorded, IntervalUse::Given),
            notes: self.notes,
        }
    }
}

fn covered(coverage: &Coverage) -> Covered {
    Covered {
        capacity: coverage.capacity,
        observed: coverage.observed(),
        gap: coverage.gap(),
        buffered: coverage.buffered,
        ..Covered::default()
    }
}

/// Every hour, day or month of the window, also those in which nothing was seen.
fn slot_rows(fold: &ReportFold, seen: Period, unit: CalendarUnit, gaps: &[&gua_model::Gap]) -> Vec<SlotRow> {
    let mut rows: Vec<SlotRow> = Vec::new();
    for slot in slots(seen, &fold.question().zone, unit) {
        // An hour that the clock repeats is one row: its sums are kept by its label.
        match rows.last_mut() {
            Some(last) if last.label == slot.label => last.period = Period::new(last.period.from(), slot.period.to()),
            _ => rows.push(SlotRow {
                label: slot.label,
                period: slot.period,
                sums: fold.slots.get(&slot.label).cloned().unwrap_or_default(),
                gap: Micros(0),
            }),
        }
    }
    for gap in gaps {
        lay(gap, &mut rows);
    }
    rows
}

/// Gives each row its part of a gap. Of a gap that is only a part of its stretch, no more is known than its sum.
fn lay(gap: &gua_model::Gap, rows: &mut [SlotRow]) {
    let first = rows.partition_point(|row| row.period.to() <= gap.period.from());
    let mut left = gap.micros;
    for row in rows.iter_mut().skip(first) {
        let Some(part) = row.period.overlap(gap.period) else { break };
        let here = part.micros().min(left);
        row.gap += here;
        left = Micros(left.0 - here.0);
    }
}

/// Who holds what, kept in bounds.
#[derive(Debug)]
pub(super) struct HoldLists {
    current: Vec<Hold>,
    past: Longest,
    past_count: usize,
    charted: Longest,
}

impl Default for HoldLists {
    fn default() -> Self {
        Self {
            current: Vec::new(),
            past: Longest::new(KEPT),
            past_count: 0,
            charted: Longest::new(CHARTED),
        }
    }
}

impl HoldLists {
    pub(super) fn push(&mut self, hold: Hold, thresholds: &Thresholds) {
        if hold.is_without_use(thresholds) {
            if hold.current {
                self.current.push(hold.clone());
            } else {
                self.past_count += 1;
                self.past.push(hold.clone());
            }
        }
        self.charted.push(hold);
    }

    fn finish(mut self) -> (Vec<Hold>, Vec<Hold>, usize, Vec<Hold>) {
        self.current.sort_by(|one, other| super::longest::order(one, other));
        let mut charted = self.charted.into_sorted();
        charted.sort_by_key(|hold| (hold.period, hold.pid.0));
        (self.current, self.past.into_sorted(), self.past_count, charted)
    }
}

fn hold(session: &Session, known: &BTreeMap<GpuUuid, CardInfo>, names: &mut PersonNames, last: Option<Timestamp>) -> Hold {
    let owner = session.owner.as_ref();
    let workload = &session.workload;
    let work = match (&workload.job, &workload.pod, &workload.container) {
        (Some(job), _, _) => Some(format!("job {job}")),
        (None, Some(pod), _) => Some(format!("pod {pod}")),
        (None, None, Some(container)) => Some(format!("container {container}")),
        (None, None, None) => None,
    };
    Hold {
        gpu: session.key.gpu.clone(),
        index: known.get(&session.key.gpu).and_then(|card| card.index),
        owner: owner.map(|owner| names.of(Some(owner.user.uid)).to_owned()),
        by_login: owner.is_some_and(|owner| owner.source == OwnerSource::Login),
        process: session.comm.as_ref().ok().cloned(),
        workload: work,
        pid: session.key.process.pid,
        period: session.period(),
        util: session.util().map(|(util, source)| (f64::from(util.0) / 100.0, source)),
        peak_memory: session.peak_memory.ok(),
        samples: session.ticks,
        shared: session.shared,
        idle_held: Some(session.idle_held),
        current: session.open && last.is_some_and(|last| session.to >= last),
    }
}

fn host_of(history: &History, last: Option<&StoredTick>) -> anyhow::Result<Option<Host>> {
    let name = history.info()?.host;
    Ok(name.map(|name| Host {
        name,
        environment: "bare".to_owned(),
        driver: last.and_then(|last| last.tick.sample.driver.version.clone().ok()),
    }))
}

fn now_of(
    last: &StoredTick,
    thresholds: &Thresholds,
    since: &HashMap<GpuUuid, Timestamp>,
    names: &mut PersonNames,
    wanted: &dyn Fn(&GpuUuid) -> bool,
) -> Now {
    let sample = &last.tick.sample;
    let mut cards = Vec::new();
    for gpu in sample.gpus.iter().filter(|gpu| wanted(&gpu.uuid)) {
        let mut holders: Vec<_> = gua_model::classify::holders(gpu, thresholds).collect();
        holders.sort_by_key(|process| std::cmp::Reverse(process.memory.ok()));
        let mut owners: Vec<String> = Vec::new();
        for process in &holders {
            let uid = process.identity.as_ref().ok().and_then(|identity| identity.owner()).map(|owner| owner.user.uid);
            let gone = matches!(process.identity, Err(Missing::Gone));
            let name = if gone { "gone" } else { names.of(uid) };
            if !owners.iter().any(|known| known == name) {
                owners.push(name.to_owned());
            }
        }
        let process = holders.iter().find_map(|process| process.identity.as_ref().ok()?.comm.clone().ok());
        cards.push(CardNow {
            gpu: gpu.uuid.clone(),
            index: Some(gpu.index),
            name: gpu.name.clone().ok(),
            state: classify(gpu, thresholds, None).state,
            util: gpu.util.ok().map(|util| util.get().into()),
            memory_used: gpu.memory_used.ok(),
            memory_total: gpu.memory_total.ok(),
            owners,
            process,
            held_since: since.get(&gpu.uuid).copied(),
        });
    }
    Now { at: sample.at, cards }
}

/// The cards that were asked for, by number, UUID or the beginning of one.
pub(super) fn choose(
    asked: &[String],
    known: &dyn Fn() -> Vec<(GpuUuid, Option<u32>)>,
) -> Result<Option<BTreeSet<GpuUuid>>, Failure> {
    if asked.is_empty() {
        return Ok(None);
    }
    let known = known();
    let mut chosen = BTreeSet::new();
    for text in asked {
        let number = text.parse::<u32>().ok();
        let fits = |(uuid, index): &&(GpuUuid, Option<u32>)| {
            (number.is_some() && *index == number) || uuid.as_str() == text || (text.len() >= 3 && uuid.as_str().starts_with(text.as_str()))
        };
        let found: Vec<_> = known.iter().filter(fits).map(|(uuid, _)| uuid.clone()).collect();
        if found.is_empty() {
            let shown: String = text.chars().take(60).flat_map(char::escape_debug).collect();
            let mut names: Vec<String> = known
                .iter()
                .map(|(uuid, index)| index.map_or_else(|| uuid.to_string(), |index| format!("{index} ({uuid})")))
                .collect();
            names.truncate(16);
            let have = if names.is_empty() { "no GPU at all".to_owned() } else { names.join(", ") };
            return Err(Failure::usage(format!("--gpu: this history knows no GPU `{shown}`; it has {have}")));
        }
        chosen.extend(found);
    }
    Ok(Some(chosen))
}
