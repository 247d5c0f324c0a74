//! The numbers of a report from our own history: totals in one pass, then who is there now.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gua_model::classify::holders;
use gua_model::legacy::OwnSince;
use gua_model::refusal::in_the_way;
use gua_model::report::fold::ReportFold;
use gua_model::report::{
    BlockRow, CardNow, Hold, Host, Note, Now, PersonNames, Refused, Report, UNKNOWN,
};
use gua_model::{
    Gpu, GpuUuid, KnownCard, Ledger, Micros, Missing, OwnerSource, Period, RollUp, Session,
    Thresholds, UtilSource, classify,
};
use gua_store::{CardInfo, History, StoredTick};
use jiff::Timestamp;

use crate::card::Card;

use super::ask::{Ask, choose, no_such_person};
use super::layout::{Parts, covered};
use super::longest::HoldLists;
use super::old::{self, OldPart};
use super::ragged::Ragged;

/// Reads everything that a report says from a history of ours.
pub(super) fn of_history(history: &History, ask: &Ask) -> anyhow::Result<Report> {
    let known: BTreeMap<GpuUuid, CardInfo> = history
        .cards()?
        .into_iter()
        .map(|card| (card.uuid.clone(), card))
        .collect();
    let people = history.people()?;
    let mut names = PersonNames::new(people.clone());
    let own_thresholds = history.thresholds()?;
    let thresholds = ask.thresholds.over(own_thresholds);
    let window = ask.window;
    let facts = history.old_facts()?;
    let began = known.values().map(|card| card.first_seen);
    let began = began
        .chain(facts.as_ref().and_then(|facts| facts.began))
        .min();
    let seen = Period::new(began.unwrap_or(window.to()).max(window.from()), window.to());
    let gpus = choose(&ask.gpus, &|| {
        let own = known.values().map(|card| Card {
            uuid: Some(card.uuid.clone()),
            index: card.index,
            name: card.name.clone(),
            parent: card.parent.clone(),
        });
        let old = facts.iter().flat_map(|facts| facts.cards.keys());
        let old = old.filter(|gpu| !known.contains_key(*gpu));
        own.chain(old.map(|gpu| Card::of_old(gpu.clone(), None)))
            .collect()
    })?;
    let question = ask.question(gpus, seen);
    let first = |card: &CardInfo| KnownCard {
        first: card.first_seen,
        parent: card.parent.clone(),
    };
    let firsts: BTreeMap<_, _> = known
        .iter()
        .map(|(uuid, card)| (uuid.clone(), first(card)))
        .collect();
    let outages = history.outages(window)?;
    let raw_from = history.raw_from()?;
    let folded = history.fold_totals(
        window,
        Some(thresholds),
        |window| {
            let fold = ReportFold::new(question, names.clone());
            let ragged = Ragged::new(raw_from);
            (fold, Ledger::new(window, firsts, &outages), ragged)
        },
        |(fold, ledger, ragged), quarter, cards| {
            if !ragged.takes(quarter, cards, ledger) {
                ledger.push_quarter(cards);
            }
            for card in cards {
                fold.own(quarter, &card.gpu, &card.total);
            }
        },
    )?;
    let (mut fold, mut ledger, ragged) = folded.sum;
    ragged.tell(history, thresholds, &mut ledger)?;
    let host_observed = ledger.host_observed();
    let mut coverage = ledger.finish();
    coverage.retain(|gpu, _| fold.wants(gpu));
    for (gpu, covered) in &coverage {
        anyhow::ensure!(
            covered.balance() == 0,
            "the books of {gpu} do not balance; please report this"
        );
    }

    let mut coverage: BTreeMap<_, _> = coverage
        .into_iter()
        .map(|(gpu, coverage)| (gpu, covered(coverage)))
        .collect();
    let mut card_since: BTreeMap<_, _> = known
        .iter()
        .map(|(gpu, card)| (gpu.clone(), card.first_seen))
        .collect();
    let last = history.last_tick_before(window.to())?;
    let last = last.filter(|tick| window.contains(tick.tick.sample.at));
    let last_at = last.as_ref().map(|tick| tick.tick.sample.at);
    let mut holds = HoldLists::default();
    let mut notes = Vec::new();
    if let Some(facts) = &facts {
        let own_since = known
            .iter()
            .map(|(gpu, card)| (gpu.clone(), card.first_seen));
        let own_since = OwnSince(own_since.collect());
        let mut part = OldPart::new(thresholds, ask, &own_since);
        history.old_moments(old::rows(ask), &mut |moment| part.push(moment, &mut fold))?;
        let had_own = fold.all.observed() > Micros(0);
        let old = part.finish(&mut fold, facts, last_at);
        holds = old.holds;
        notes = old.notes;
        card_since.extend(old.since);
        if had_own && fold.all.old.ticks != [0; 3] {
            notes.push(Note::Mixed);
        }
        for (gpu, (covered, gaps)) in old.coverage {
            let (sum, all) = coverage.entry(gpu).or_default();
            sum.add(&covered);
            all.extend(gaps);
        }
    }
    if thresholds != own_thresholds {
        notes.push(Note::SessionsByFile);
    }

    if let Some(user) = ask.user.as_deref().filter(|user| *user != UNKNOWN) {
        let mut known: BTreeSet<String> = people.into_values().collect();
        if !known.contains(user) && fold.people.rows().is_empty() {
            let all = Period::new(Timestamp::MIN, Timestamp::MAX);
            history.old_moments(all, &mut |moment| {
                let rows = moment.ticks.iter().flat_map(|tick| tick.processes);
                for name in rows.filter_map(|row| row.counted_as()) {
                    if !known.contains(name) {
                        known.insert(name.to_owned());
                    }
                }
            })?;
            if !known.contains(user) {
                return Err(no_such_person(user, known).into());
            }
        }
    }

    let mut since: HashMap<GpuUuid, Timestamp> = HashMap::new();
    history.each_session(window, |session| {
        let gpu = &session.key.gpu;
        if !fold.wants(gpu) {
            return;
        }
        let hold = hold(session, &known, &mut names, last_at);
        let owner = hold.owner.as_deref().unwrap_or(UNKNOWN);
        if ask.user.as_deref().is_some_and(|user| owner != user) {
            return;
        }
        if hold.current {
            let first = since.entry(gpu.clone()).or_insert(session.from);
            *first = session.from.min(*first);
        }
        holds.push(&hold, &thresholds);
    })?;
    if folded.window != window && !seen.is_empty() {
        notes.push(Note::Widened { asked: window });
    }
    if folded.ticks_damaged > 0 {
        let ticks = folded.ticks_damaged;
        notes.push(Note::Damaged { ticks });
    }
    let host = host_of(history, last.as_ref())?;
    let host = host.or_else(|| old::host(facts.as_ref()?));
    let wanted = |gpu: &GpuUuid| fold.wants(gpu);
    if let Some(last) = &last {
        for hold in nameless_holds(last, &thresholds, &wanted) {
            let theirs = ask.user.as_deref().is_none_or(|user| user == UNKNOWN);
            if theirs {
                holds.push(&hold, &thresholds);
            }
        }
    }
    let now = last.map(|last| now_of(&last, &thresholds, &since, &mut names, &wanted));
    let now = match (now, &facts) {
        (None, Some(facts)) => old::now(facts, ask, &fold, thresholds, &mut |window, each| {
            history.old_moments(window, each)
        })?,
        (now, _) => now,
    };
    let refused = refused(history, ask, &known, &mut names, &wanted)?;
    let parts = Parts {
        ask,
        thresholds,
        window: folded.window,
        seen,
        outages: &outages,
        coverage,
        since: card_since,
        host_observed,
        host,
        now,
        refused,
        tick_interval: history
            .runs()?
            .last()
            .map(|run| run.interval)
            .or_else(|| facts.as_ref()?.interval),
        notes,
    };
    let card = |gpu: &GpuUuid| {
        let card = known.get(gpu);
        let old = || facts.as_ref()?.cards.get(gpu).map(|card| card.name.clone());
        card.map_or_else(|| (None, old()), |card| (card.index, card.name.clone()))
    };
    Ok(parts.into_report(fold, holds, &card))
}

fn hold(
    session: &Session,
    known: &BTreeMap<GpuUuid, CardInfo>,
    names: &mut PersonNames,
    last: Option<Timestamp>,
) -> Hold {
    let owner = session.owner.as_ref();
    Hold {
        gpu: session.key.gpu.clone(),
        index: known.get(&session.key.gpu).and_then(|card| card.index),
        owner: owner.map(|owner| names.of(Some(owner.user.uid)).to_owned()),
        by_login: owner.is_some_and(|owner| owner.source == OwnerSource::Login),
        process: session.comm.as_ref().ok().cloned(),
        workload: session.workload.in_words(),
        pid: Some(session.key.process.pid),
        period: session.period(),
        last_row: Micros(0),
        util: session
            .util()
            .map(|(util, source)| (f64::from(util.0) / 100.0, source)),
        peak_memory: session.peak_memory.ok(),
        samples: session.ticks,
        shared: session.shared,
        observed: Some(session.observed),
        observed_within: None,
        active: Some(session.active),
        idle_held: Some(session.idle_held),
        // In the last tick of the window, whatever came after it.
        current: last.is_some_and(|last| session.from <= last && session.to >= last),
    }
}

/// Holders in the last tick that nobody can name, and that therefore have no session: processes that are gone, or hidden
/// from us. Since when they hold their card is not known.
fn nameless_holds(
    last: &StoredTick,
    thresholds: &Thresholds,
    wanted: &dyn Fn(&GpuUuid) -> bool,
) -> Vec<Hold> {
    let sample = &last.tick.sample;
    let mut found = Vec::new();
    let counted = |gpu: &&Gpu| gpu.place.counts() && wanted(&gpu.uuid);
    for gpu in sample.gpus.iter().filter(counted) {
        let state = classify(gpu, thresholds, None).state;
        if state.roll_up() != Some(RollUp::IdleHeld) {
            continue;
        }
        let there = holders(gpu, thresholds).count();
        for process in holders(gpu, thresholds).filter(|process| process.identity.is_err()) {
            found.push(Hold {
                gpu: gpu.uuid.clone(),
                index: Some(gpu.index),
                owner: None,
                by_login: false,
                process: None,
                workload: matches!(process.identity, Err(Missing::Gone))
                    .then(|| "gone, its memory is still held".to_owned()),
                pid: Some(process.pid),
                period: Period::new(sample.at, sample.at),
                last_row: Micros(0),
                util: gpu
                    .util
                    .ok()
                    .map(|util| (f64::from(util.get()), UtilSource::Card)),
                peak_memory: process.memory.ok(),
                samples: 1,
                shared: there > 1,
                observed: None,
                observed_within: None,
                active: None,
                idle_held: None,
                current: true,
            });
        }
    }
    found
}

/// Who asked in vain; of one person, what they asked for and where they were in the way.
fn refused(
    history: &History,
    ask: &Ask,
    known: &BTreeMap<GpuUuid, CardInfo>,
    names: &mut PersonNames,
    wanted: &dyn Fn(&GpuUuid) -> bool,
) -> anyhow::Result<Option<Refused>> {
    let mut refusals = history.refusals(ask.window)?;
    for refusal in &mut refusals {
        refusal.blocked_by.retain(|block| wanted(&block.gpu));
    }
    let is_theirs = |user: &str| ask.user.as_deref().is_none_or(|wanted| wanted == user);
    refusals.retain(|refusal| {
        let blocks = refusal.blocked_by.iter();
        let mut people = blocks
            .map(|block| block.holder)
            .chain([refusal.asking.asker.uid]);
        people.any(|uid| is_theirs(names.of(Some(uid))))
    });
    let mut rows = Vec::new();
    for row in in_the_way(&refusals) {
        let holder = names.of(Some(row.holder)).to_owned();
        let asker = names.of(Some(row.asker)).to_owned();
        if is_theirs(&holder) || is_theirs(&asker) {
            rows.push(BlockRow {
                holder,
                index: known.get(&row.gpu).and_then(|card| card.index),
                gpu: row.gpu,
                asker,
                times: row.times,
                waited: row.waited,
            });
        }
    }
    Ok((!refusals.is_empty()).then_some(Refused {
        requests: refusals.len(),
        in_the_way: rows,
    }))
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
    let counted = |gpu: &&Gpu| gpu.place.counts() && wanted(&gpu.uuid);
    for gpu in sample.gpus.iter().filter(counted) {
        let mut there: Vec<_> = holders(gpu, thresholds).collect();
        there.sort_by_key(|process| std::cmp::Reverse(process.memory.ok()));
        let mut owners: Vec<String> = Vec::new();
        for process in &there {
            let uid = process
                .identity
                .as_ref()
                .ok()
                .and_then(|identity| identity.owner())
                .map(|owner| owner.user.uid);
            let gone = matches!(process.identity, Err(Missing::Gone));
            let name = if gone { "gone" } else { names.of(uid) };
            if !owners.iter().any(|known| known == name) {
                owners.push(name.to_owned());
            }
        }
        let process = there
            .iter()
            .find_map(|process| process.identity.as_ref().ok()?.comm.clone().ok());
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
    Now {
        at: sample.at,
        cards,
    }
}
