//! The card at a moment of the past, from a history: the tick that stands for it, or why there is none.

use anyhow::Context as _;
use gua_model::period::whole_micros;
use gua_model::report::PersonNames;
use gua_model::{
    GpuUuid, KnownCard, Ledger, Period, Quarter, Span, State, Thresholds, Tick, UtilWindow,
};
use gua_store::{CardInfo, FileKind, History, TickAt, what_is_this};
use jiff::{SignedDuration, Timestamp};

use super::answer::{Answer, Found, GapFound, OldRow, QuarterFound, Seen, When};
use super::{now, old};
use crate::card::{self, Card};
use crate::config::Loaded;
use crate::which;

/// How far around a moment a gap is followed, step by step: most are short.
const REACH: [SignedDuration; 4] = [
    SignedDuration::from_hours(1),
    SignedDuration::from_hours(24),
    SignedDuration::from_hours(7 * 24),
    SignedDuration::from_hours(60 * 24),
];

pub(super) fn answer(
    asked: &str,
    at: Timestamp,
    now: Timestamp,
    loaded: &Loaded,
) -> anyhow::Result<Answer> {
    let path = which::history(loaded);
    match what_is_this(&path) {
        FileKind::Missing => Err(which::no_history(&path).into()),
        FileKind::GpuUsageAudit => old::of_file(asked, at, &path),
        _ => of_history(asked, at, now, &History::open(&path)?),
    }
}

fn of_history(
    asked: &str,
    at: Timestamp,
    now: Timestamp,
    history: &History,
) -> anyhow::Result<Answer> {
    let infos = history.cards()?;
    let thresholds = history.thresholds()?;
    let tick = history.tick_at(at, thresholds)?;
    let old = old::near(history, at)?;
    let mut known: Vec<Card> = Vec::new();
    // Cards that were there at that time come first, as numbers may have changed since.
    if let Some(TickAt { tick, .. }) = &tick {
        known.extend(tick.sample.gpus.iter().map(now::of_gpu));
    }
    known.extend(infos.iter().map(of_info));
    known.extend(old.iter().map(|tick| Card {
        uuid: Some(tick.gpu.clone()),
        index: tick.index,
        name: None,
        parent: None,
    }));
    let mut seen = std::collections::BTreeSet::new();
    known.retain(|card| seen.insert(card.uuid.clone()));
    let mut card = card::choose(asked, &known)?;
    let uuid = card.uuid.clone().context("a history names its cards")?;
    let info = infos.iter().find(|info| info.uuid == uuid);
    card.name = card
        .name
        .or_else(|| info.and_then(|info| info.name.clone()));

    // From the last tick to just after the next one, or until now.
    let last = tick.as_ref().map_or(at, |tick| tick.tick.sample.at);
    let next = tick.as_ref().and_then(|tick| tick.next.as_ref());
    let next = next.map(|next| {
        next.sample
            .at
            .saturating_add(SignedDuration::from_micros(2))
    });
    let between = Period::new(last, next.transpose()?.unwrap_or(now).min(now));
    let asker = Asker {
        between,
        history,
        uuid,
        at,
        now,
        thresholds,
        infos: &infos,
    };
    let found = asker.find(tick, &card, info, old)?;
    Ok(Answer { card, at, found })
}

fn of_info(info: &CardInfo) -> Card {
    Card {
        uuid: Some(info.uuid.clone()),
        index: info.index,
        name: info.name.clone(),
        parent: info.parent.clone(),
    }
}

/// A question about one card and one moment.
struct Asker<'a> {
    history: &'a History,
    uuid: GpuUuid,
    at: Timestamp,
    now: Timestamp,
    thresholds: Thresholds,
    infos: &'a [CardInfo],
    /// The time between the ticks around the moment, and a little of what the later one stands for.
    between: Period,
}

impl Asker<'_> {
    fn find(
        &self,
        tick: Option<TickAt>,
        card: &Card,
        info: Option<&CardInfo>,
        old: Vec<OldRow>,
    ) -> anyhow::Result<Found> {
        let stands = |span: &&Span| span.gpu == self.uuid && span.period().contains(self.at);
        let tick = tick.and_then(|tick| {
            let span = tick.spans.iter().find(stands)?.clone();
            Some((tick, span))
        });
        if let Some((tick, span)) = tick {
            return Ok(Found::Seen(Box::new(self.seen(tick, span, card)?)));
        }
        let old = old.into_iter().rev().find(|tick| tick.gpu == self.uuid);
        if let Some(old) = old {
            return Ok(Found::OldRow(old));
        }
        let first = info.map(|info| info.first_seen);
        if first.is_none_or(|first| self.at < first) {
            return Ok(Found::Before { first });
        }
        if let Some(raw_from) = self.history.raw_from()?.filter(|from| self.at < *from)
            && let Some(found) = self.quarter(raw_from)?
        {
            return Ok(found);
        }
        Ok(match self.gap()? {
            Some(gap) => Found::Gap(gap),
            None => Found::NotMade,
        })
    }

    fn seen(
        &self,
        TickAt {
            tick,
            spans: _,
            next,
        }: TickAt,
        span: Span,
        card: &Card,
    ) -> anyhow::Result<Seen> {
        let Tick { sample, interval } = tick;
        let gpu = sample
            .gpus
            .iter()
            .find(|gpu| gpu.uuid == self.uuid)
            .cloned();
        let gpu = gpu.context("a span comes from a card of its tick")?;
        let unobserved = span
            .shares
            .iter()
            .any(|share| share.verdict.state == State::Unobserved);
        let later = next
            .as_ref()
            .and_then(|next| next.sample.gpus.iter().find(|gpu| gpu.uuid == self.uuid));
        let window: Option<UtilWindow> = later
            .and_then(|gpu| gpu.window.ok())
            .filter(|_| span.basis == gua_model::Basis::Buffer);
        let ended_by_next = next
            .as_ref()
            .is_some_and(|next| next.sample.at.as_microsecond() == span.to.as_microsecond());
        Ok(Seen {
            at: sample.at,
            thresholds: self.thresholds,
            since: None,
            sessions: now::sessions(self.history, &self.uuid, self.at),
            problems: now::problems(&sample, card),
            instances: now::instances(&sample, &self.uuid),
            gap: if unobserved { self.gap()? } else { None },
            when: When::Tick {
                period: span.period(),
                interval,
                basis: span.basis,
                window,
                ended_by_next,
            },
            shares: span.shares,
            gpu,
        })
    }

    /// The unobserved time around the moment; `None` where the card was not to be expected.
    fn gap(&self) -> anyhow::Result<Option<GapFound>> {
        let mut found = None;
        // Where no tick is in it, its neighbours tell; else it is followed, as a lost card may be lost for long.
        let near = std::iter::once(self.between);
        for window in near.chain(REACH.map(|reach| self.around(reach))) {
            let Some(gap) = self.gap_within(window)? else {
                return Ok(found);
            };
            let is_whole = !gap.from_is_bound && !gap.to_is_bound;
            found = Some(gap);
            if is_whole {
                break;
            }
        }
        Ok(found)
    }

    fn around(&self, reach: SignedDuration) -> Period {
        let from = self.at.saturating_sub(reach).unwrap_or(Timestamp::MIN);
        let to = self.at.saturating_add(reach).unwrap_or(Timestamp::MAX);
        Period::new(from, to.min(self.now))
    }

    fn gap_within(&self, window: Period) -> anyhow::Result<Option<GapFound>> {
        let known = self.infos.iter().map(|info| {
            let known = KnownCard {
                first: info.first_seen,
                parent: info.parent.clone(),
            };
            (info.uuid.clone(), known)
        });
        let outages = self.history.outages(window)?;
        let mut ledger = Ledger::new(window, known.collect(), &outages);
        self.history
            .each_span(window, self.thresholds, |span| ledger.push(span))?;
        let mut coverage = ledger.finish();
        let gaps = coverage.remove(&self.uuid).unwrap_or_default().gaps;
        let Some(gap) = gaps.into_iter().find(|gap| gap.period.contains(self.at)) else {
            return Ok(None);
        };
        let inside = |outage: &gua_model::Outage| outage.period().overlap(gap.period).is_some();
        let goes_on = gap.period.to() >= whole_micros(self.now);
        Ok(Some(GapFound {
            period: gap.period,
            reason: gap.reason,
            from_is_bound: gap.period.from() == window.from(),
            to_is_bound: gap.period.to() == window.to() && !goes_on,
            goes_on,
            outages: outages.into_iter().filter(inside).collect(),
        }))
    }

    /// What is kept of the quarter hour; `None` where nothing of this card is.
    fn quarter(&self, raw_from: Timestamp) -> anyhow::Result<Option<Found>> {
        let quarter = Quarter::of(self.at);
        let totals = self.history.totals(quarter.period())?.totals;
        let total = totals
            .quarters
            .get(&quarter)
            .and_then(|cards| cards.get(&self.uuid));
        let Some(total) = total.cloned() else {
            return Ok(None);
        };
        let mut names = PersonNames::new(self.history.people()?);
        let owners = total
            .owners
            .keys()
            .map(|uid| uid.map(|uid| names.of(Some(uid)).to_owned()));
        Ok(Some(Found::Quarter(Box::new(QuarterFound {
            period: quarter.period(),
            owners: owners.collect(),
            total,
            thresholds: self.thresholds,
            raw_from,
        }))))
    }
}
