//! One line of the listing: a card or a MIG instance, who holds it, its sign and its state.

use std::time::Duration;

use gua_model::pick::{Order, sort};
use gua_model::since::Since;
use gua_model::text::sanitize;
use gua_model::{
    Gpu, Missing, Place, Process, Reading, Sample, State, Thresholds, classify, classify::holders,
};
use gua_probe::process::ProcRoot;
use gua_probe::process::command::{CommandLine, command_line};
use gua_render::listing::ListedClaim;

use crate::look::people;

/// What decides how a sample is read.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub thresholds: Thresholds,
    pub ticks_per_second: u64,
}

/// nvgpu's signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Nobody holds it.
    Free,
    /// Somebody does.
    Held,
    /// A holder is gone or cannot be seen, the card is at work without one, or it cannot be read.
    Wrong,
}

impl Sign {
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Sign::Free => "[ ]",
            Sign::Held => "[~]",
            Sign::Wrong => "[!]",
        }
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Sign::Free => "free",
            Sign::Held => "held",
            Sign::Wrong => "wrong",
        }
    }
}

/// A card, or an instance below its card.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    pub index: u32,
    /// `None` for a card that does not even say its name.
    pub gpu: Option<&'a Gpu>,
    pub sign: Sign,
    /// `None` where the card's instances stand for it.
    pub state: Option<State>,
    /// Why the state was not seen.
    pub unseen: Option<Missing>,
    pub holders: Vec<&'a Process>,
    /// How long the oldest holder has lived.
    pub oldest: Option<Duration>,
    /// Since when it has been in its state, where a daemon knows.
    pub since: Option<Since>,
    /// To whom it is leased.
    pub claims: Vec<Leased>,
}

/// A lease on a card.
#[derive(Clone, Debug)]
pub struct Leased {
    /// `ada (pid 4711 bash) until 14:30:05`.
    pub text: String,
    pub user: String,
    pub listed: ListedClaim,
}

/// The cards in the wished order, instances below their card, the nameless ones by their number.
#[must_use]
pub fn rows<'a>(sample: &'a Sample, terms: &Terms, order: Option<&Order>) -> Vec<Row<'a>> {
    let is_instance = |gpu: &&Gpu| matches!(gpu.place, Place::Instance { .. });
    let mut cards: Vec<&Gpu> = sample.gpus.iter().filter(|gpu| !is_instance(gpu)).collect();
    if let Some(order) = order {
        sort(&mut cards, order, |gpu| gpu);
    }
    let mut rows = Vec::new();
    for card in cards {
        let instances: Vec<Row<'_>> = sample
            .gpus
            .iter()
            .filter(|gpu| gpu.place.parent() == Some(&card.uuid))
            .map(|gpu| row(gpu, sample, terms))
            .collect();
        let mut of_card = row(card, sample, terms);
        if of_card.state.is_none() && of_card.sign == Sign::Free {
            let is_held = instances.iter().any(|instance| instance.sign != Sign::Free);
            of_card.sign = if is_held { Sign::Held } else { Sign::Free };
        }
        rows.push(of_card);
        rows.extend(instances);
    }
    for problem in &sample.problems {
        if let (None, Some(index)) = (&problem.gpu, problem.index)
            && rows.iter().all(|row| row.index != index)
        {
            let place = rows.iter().position(|row| row.index > index);
            let place = place.filter(|_| order.is_none()).unwrap_or(rows.len());
            rows.insert(place, nameless(index, problem.why));
        }
    }
    rows
}

fn row<'a>(gpu: &'a Gpu, sample: &Sample, terms: &Terms) -> Row<'a> {
    let verdict = classify(gpu, &terms.thresholds, None);
    let holders: Vec<&Process> = holders(gpu, &terms.thresholds).collect();
    let state = gpu.place.counts().then_some(verdict.state);
    let is_wrong = matches!(state, Some(State::Unobserved | State::Ghost))
        || holders.iter().any(|process| process.identity.is_err());
    let identities = holders
        .iter()
        .filter_map(|process| process.identity.as_ref().ok());
    let oldest = identities
        .filter_map(|identity| people::age(identity, sample, terms.ticks_per_second))
        .max();
    Row {
        index: gpu.index,
        gpu: Some(gpu),
        sign: match holders.as_slice() {
            _ if is_wrong => Sign::Wrong,
            [] => Sign::Free,
            _ => Sign::Held,
        },
        state,
        unseen: verdict.evidence.unobserved,
        holders,
        oldest,
        since: None,
        claims: Vec::new(),
    }
}

fn nameless(index: u32, why: Missing) -> Row<'static> {
    Row {
        index,
        gpu: None,
        sign: Sign::Wrong,
        state: Some(State::Unobserved),
        unseen: Some(why),
        holders: Vec::new(),
        oldest: None,
        since: None,
        claims: Vec::new(),
    }
}

impl Row<'_> {
    #[must_use]
    pub fn is_instance(&self) -> bool {
        self.gpu
            .is_some_and(|gpu| matches!(gpu.place, Place::Instance { .. }))
    }

    /// Whether nobody holds it, and somebody has leased it.
    #[must_use]
    pub fn is_only_claimed(&self) -> bool {
        self.sign == Sign::Free && !self.claims.is_empty()
    }

    /// A reading of the card, for showing; `None` where there is none.
    pub fn reading<T>(&self, of: impl Fn(&Gpu) -> Reading<T>) -> Option<T> {
        of(self.gpu?).ok()
    }

    /// The card's name; an instance stands below its card, whose name is not said again.
    #[must_use]
    pub fn name(&self, sample: &Sample) -> Option<String> {
        let gpu = self.gpu?;
        let name = gpu.name.as_ref().ok()?;
        let parent = gpu.place.parent();
        let parent = sample.gpus.iter().find(|card| Some(&card.uuid) == parent);
        let prefix = parent.and_then(|card| card.name.as_ref().ok());
        let short = prefix.and_then(|prefix| name.strip_prefix(prefix.as_str()));
        Some(sanitize(short.map_or(name.as_str(), str::trim_start)))
    }

    /// The command line of the first holder that can be seen, shortened. For a person's eyes alone.
    #[must_use]
    pub fn command(&self) -> Option<CommandLine> {
        let root = ProcRoot::default();
        let mut lines = self.holders.iter().filter_map(|process| {
            let identity = process.identity.as_ref().ok()?;
            command_line(&root, &identity.key).ok()
        });
        lines.next().map(|line| line.in_short())
    }

    /// The command line of every holder in the order of the pids, whole; `?` for one that cannot be seen. For a person's
    /// eyes alone.
    #[must_use]
    pub fn commands(&self) -> Vec<String> {
        let root = ProcRoot::default();
        let line = |process: &&Process| {
            let identity = process.identity.as_ref().ok()?;
            Some(command_line(&root, &identity.key).ok()?.to_string())
        };
        let lines = self.holders.iter().map(line);
        lines
            .map(|line| line.unwrap_or_else(|| "?".to_owned()))
            .collect()
    }
}
