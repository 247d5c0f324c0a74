//! What is told to the collector when somebody asked for cards and did not get them: who held which, idle since when.

use gua_claim::{BlockingCard, ClaimedBy, ClaimedCard, LiveClaim, Outcome, Refusal};
use gua_model::pick::{Obstacle, Wish, against};
use gua_model::{Gpu, RollUp, Sample, classify};
use jiff::SignedDuration;

use crate::config::Loaded;
use crate::look;

/// What was asked for, and what spoke against it.
#[derive(Debug)]
pub struct Asked<'a> {
    pub sample: &'a Sample,
    pub wish: &'a Wish,
    pub others: &'a [(&'a Gpu, Obstacle)],
    pub claims: &'a [LiveClaim],
    pub wanted: usize,
    pub left: usize,
}

impl Asked<'_> {
    /// As refused at once; whoever waits changes the outcome later.
    pub fn refusal(&self, loaded: &Loaded) -> Refusal {
        let mut blocked_by: Vec<BlockingCard> = self
            .others
            .iter()
            .filter_map(|(gpu, why)| match why {
                Obstacle::Held => Some(self.held(gpu)),
                Obstacle::Claimed => Some(self.claimed(gpu)),
                _ => None,
            })
            .collect();
        self.look_back(&mut blocked_by, loaded);
        Refusal {
            at: self.sample.at,
            wanted: self.wanted,
            left: self.left,
            outcome: Outcome::Refused,
            waited: SignedDuration::ZERO,
            blocked_by,
        }
    }

    fn held(&self, gpu: &Gpu) -> BlockingCard {
        let mut users: Vec<_> = against(gpu, self.wish)
            .filter_map(|process| Some(process.identity.as_ref().ok()?.owner()?.user.uid))
            .collect();
        users.sort_unstable();
        users.dedup();
        let state = classify(gpu, &self.wish.thresholds, None).state;
        // Idle now, whatever was before: a history may know more.
        let is_idle = state.roll_up() == Some(RollUp::IdleHeld);
        BlockingCard {
            gpu: gpu.uuid.clone(),
            users,
            idle_since: is_idle.then_some(self.sample.at),
        }
    }

    /// A lease that nobody has come onto yet keeps its card idle since it was made.
    fn claimed(&self, gpu: &Gpu) -> BlockingCard {
        let on_it = |live: &&LiveClaim| {
            let leased = |card: &ClaimedCard| card.gpu == gpu.uuid && card.by == ClaimedBy::Lease;
            live.cards.iter().any(leased)
        };
        let claims: Vec<_> = self.claims.iter().filter(on_it).collect();
        BlockingCard {
            gpu: gpu.uuid.clone(),
            users: claims.iter().map(|live| live.claim.owner).collect(),
            idle_since: claims.iter().map(|live| live.claim.made).min(),
        }
    }

    fn look_back(&self, cards: &mut [BlockingCard], loaded: &Loaded) {
        let idle: Vec<_> = cards
            .iter()
            .filter(|card| card.idle_since == Some(self.sample.at))
            .map(|card| (card.gpu.clone(), RollUp::IdleHeld))
            .collect();
        if idle.is_empty() {
            return;
        }
        let since = look::since(loaded, idle, self.sample.at);
        for card in cards {
            if let (Some(_), Some(found)) = (card.idle_since, since.get(&card.gpu)) {
                card.idle_since = Some(found.at);
            }
        }
    }
}
