//! What is remembered of a card between ticks: its name, and how far its sample buffers were read.

use std::collections::HashMap;
use std::time::Duration;

use gua_model::{Gpu, GpuUuid, Missing, PciId, Percent, Pid, Place, Reading, UtilWindow};

use super::settings::{ASK_AGAIN, Asked, Settings};
use crate::nvml::{Code, Device, Library, Lists};

/// The longest look that has a meaning, in microseconds; it also keeps sums of percentages from overflowing.
const DAY: u64 = 86_400_000_000;

/// One card, followed over the life of the probe.
pub(super) struct Followed {
    pub(super) uuid: GpuUuid,
    pub(super) index: u32,
    /// Valid while the library is open; `None` while the card does not answer.
    pub(super) device: Option<Device>,
    /// Asked until it is known.
    pub(super) name: Reading<String>,
    pub(super) pci: Reading<PciId>,
    /// When the handle's uuid was last asked for.
    pub(super) named_at: Option<Duration>,
    pub(super) settings: Option<Asked<Settings>>,
    /// The MIG instances that it had when they could last be listed: uuid and place.
    pub(super) instances: Vec<(GpuUuid, Place)>,
    cards: Stream<UtilWindow>,
    processes: Stream<Shares>,
    /// How far back the driver's buffer reaches, and when it was last read.
    reach: Option<Duration>,
    looked_at: Duration,
    /// When it last had something new.
    fresh_at: Duration,
}

/// With something new this recently, nothing new is no wonder: drivers sample every sixth of a second to every second.
const QUIET: Duration = Duration::from_secs(2);

/// A buffer that is read piece by piece.
struct Stream<T> {
    /// The driver's time of the last sample that was taken over.
    since: Option<u64>,
    /// Taken over since the last tick.
    pending: T,
    problem: Option<Code>,
}

impl<T: Default> Default for Stream<T> {
    fn default() -> Self {
        Self {
            since: None,
            pending: T::default(),
            problem: None,
        }
    }
}

impl<T: Default> Stream<T> {
    fn take(&mut self) -> (T, Option<Code>) {
        (std::mem::take(&mut self.pending), self.problem.take())
    }
}

/// What the looks since the last tick said of each process.
///
/// The driver gives one record a process and look: the mean over the time since the look before, and nothing at all for
/// a process that did nothing in that time (nvtop's and nvitop's authors found the same, see nvtop#91 and #110).
#[derive(Default)]
pub(super) struct Shares {
    /// Percent times weight.
    sums: HashMap<Pid, u64>,
    /// The time of all looks, whether a process was in them or not.
    weight: u64,
}

impl Shares {
    fn add_look(&mut self, samples: &[(Pid, u64, u32)], weight: u64) {
        let mut looks: HashMap<Pid, (u64, u64)> = HashMap::new();
        for (pid, _, value) in samples {
            if let Some(value) = Percent::new(*value) {
                let (sum, count) = looks.entry(*pid).or_default();
                *sum += u64::from(value.get());
                *count += 1;
            }
        }
        for (pid, (sum, count)) in looks {
            *self.sums.entry(pid).or_default() += sum * weight / count;
        }
        self.weight += weight;
    }

    fn mean(&self, pid: Pid) -> Option<Percent> {
        let sum = self.sums.get(&pid)?;
        let rounded = (sum + self.weight / 2).checked_div(self.weight)?;
        Percent::new(u32::try_from(rounded).ok()?)
    }
}

/// What the buffers said since the last tick, and what went wrong on the way.
pub(super) struct Since {
    /// When they were last read, on the monotonic clock.
    pub(super) now: Duration,
    pub(super) window: (UtilWindow, Option<Code>),
    pub(super) processes: (Shares, Option<Code>),
}

impl Since {
    /// Empty where the driver keeps a buffer and has nothing in it.
    pub(super) fn window(&self) -> Result<UtilWindow, Code> {
        match self.window {
            (window, Some(code)) if window.samples() == 0 => Err(code),
            (window, _) => Ok(window),
        }
    }

    /// `Ok(None)` where the driver keeps samples and has none of this process.
    pub(super) fn sm_util(&self, pid: Pid) -> Reading<Option<Percent>> {
        match (self.processes.0.mean(pid), self.processes.1) {
            (Some(mean), _) => Ok(Some(mean)),
            (None, None) => Ok(None),
            (None, Some(code)) => Err(code.missing()),
        }
    }
}

impl Followed {
    pub(super) fn new(uuid: GpuUuid) -> Self {
        Self {
            uuid,
            index: 0,
            device: None,
            name: Err(Missing::Failed),
            pci: Err(Missing::Failed),
            named_at: None,
            settings: None,
            instances: Vec::new(),
            cards: Stream::default(),
            processes: Stream::default(),
            reach: None,
            looked_at: Duration::ZERO,
            fresh_at: Duration::ZERO,
        }
    }

    /// Whether this number and handle were this card's not long ago: a handle stands for one card as long as the library
    /// is open.
    pub(super) fn is_known_by(&self, device: Device, index: u32, now: Duration) -> bool {
        let is_recent = |at| now.saturating_sub(at) < ASK_AGAIN;
        self.device == Some(device) && self.index == index && self.named_at.is_some_and(is_recent)
    }

    /// The card answers to nothing, or the library that gave its handle is closed.
    pub(super) fn lose(&mut self) {
        self.device = None;
        self.doubt();
    }

    /// Something is wrong with the card: what is usually taken for granted for a while is asked for at the next tick.
    pub(super) fn doubt(&mut self) {
        self.named_at = None;
        self.settings = None;
    }

    pub(super) fn drain_due(&self) -> Option<Duration> {
        const SHORTEST: Duration = Duration::from_secs(1);
        self.device?;
        Some(self.looked_at + (self.reach? / 2).max(SHORTEST))
    }

    /// Reads both buffers to their end and keeps what is new.
    pub(super) fn follow(
        &mut self,
        library: &Library,
        lists: &mut Lists,
        device: Device,
        now: Duration,
    ) {
        let elapsed = now.saturating_sub(self.looked_at);
        self.looked_at = now;
        let covered = match self.card_samples(library, lists, device, (now, elapsed)) {
            Ok(Some(samples)) => self.take_over(&samples),
            Ok(None) => Some(Duration::ZERO),
            Err(code) => {
                self.cards.problem = Some(code);
                self.reach = None;
                None
            }
        };
        let weight = u64::try_from(covered.unwrap_or(elapsed).as_micros()).unwrap_or(u64::MAX);
        match self.process_records(library, lists, device) {
            Ok(records) => self
                .processes
                .pending
                .add_look(&records, weight.clamp(1, DAY)),
            Err(code) => self.processes.problem = Some(code),
        }
    }

    /// The card's samples since the last look. The whole buffer is asked for at first and whenever the last look is not
    /// recent: that tells how far it reaches, which grows while the driver is young. Where there was nothing new for a
    /// while it is asked for too: that tells whether the clock by which the driver stamps went back. `None` where there
    /// is nothing new yet.
    fn card_samples(
        &mut self,
        library: &Library,
        lists: &mut Lists,
        device: Device,
        (now, elapsed): (Duration, Duration),
    ) -> Result<Option<Vec<(u64, u32)>>, Code> {
        let is_recent = self.reach.is_some_and(|reach| elapsed < reach / 2);
        if let Some(since) = self.cards.since.filter(|_| is_recent) {
            let fresh = lists.utilisation(library, device, since)?;
            if !fresh.is_empty() {
                self.fresh_at = now;
                return Ok(Some(fresh));
            }
            if now.saturating_sub(self.fresh_at) < QUIET {
                return Ok(None);
            }
        }
        let all = lists.utilisation(library, device, 0)?;
        self.reach = (all.len() > 1).then(|| UtilWindow::new(None, &all).covered);
        Ok(Some(all))
    }

    /// The records since the last look. Where there are none, either nobody did anything or the clock by which the
    /// driver stamps went back; the whole buffer tells which.
    fn process_records(
        &mut self,
        library: &Library,
        lists: &mut Lists,
        device: Device,
    ) -> Result<Vec<(Pid, u64, u32)>, Code> {
        let newest = |records: &[(Pid, u64, u32)]| records.iter().map(|(_, at, _)| *at).max();
        let since = self.processes.since;
        let records = lists.process_utilisation(library, device, since.unwrap_or(0))?;
        // Where the card has samples of its own, those tell about the clock.
        if records.is_empty() && since.is_some() && self.cards.since.is_none() {
            let all = newest(&lists.process_utilisation(library, device, 0)?);
            if all.is_some_and(|newest| Some(newest) < since) {
                self.processes.since = all;
            }
        } else {
            self.processes.since = since.max(newest(&records)).max(self.cards.since);
        }
        Ok(records)
    }

    /// Returns the time that the new samples stand for, where there are any.
    fn take_over(&mut self, samples: &[(u64, u32)]) -> Option<Duration> {
        let (newest, _) = samples.last()?;
        if self.cards.since.is_some_and(|since| *newest < since) {
            self.cards.since = Some(*newest);
            self.processes.since = None;
            return None;
        }
        let first_new =
            samples.partition_point(|(at, _)| self.cards.since.is_some_and(|since| *at <= since));
        let window = UtilWindow::new(self.cards.since, &samples[first_new..]);
        self.cards.pending = self.cards.pending.followed_by(&window);
        self.cards.since = Some(*newest);
        Some(window.covered)
    }

    /// The card and its instances, of which nothing can be read now. They keep their places: capacity does not shrink
    /// because nobody can look.
    pub(super) fn without_readings(&self, why: Missing) -> Vec<Gpu> {
        let mut card = Gpu::without_readings(self.uuid.clone(), self.index, why);
        card.name = self.name.clone().map_err(|_| why);
        card.pci = self.pci.map_err(|_| why);
        if !self.instances.is_empty() {
            let instances = u32::try_from(self.instances.len()).unwrap_or(u32::MAX);
            card.place = Place::Parent { instances };
        }
        let mut gpus = vec![card];
        gpus.extend(self.instances_without_readings(why, |_| true));
        gpus
    }

    /// Of the instances that are remembered, those that `wanted` picks.
    pub(super) fn instances_without_readings(
        &self,
        why: Missing,
        wanted: impl Fn(&GpuUuid) -> bool,
    ) -> impl Iterator<Item = Gpu> {
        self.instances
            .iter()
            .filter(move |(uuid, _)| wanted(uuid))
            .map(move |(uuid, place)| {
                let mut gpu = Gpu::without_readings(uuid.clone(), self.index, why);
                gpu.place = place.clone();
                gpu
            })
    }

    /// What came since the last tick; begins the next.
    pub(super) fn since_last_tick(&mut self) -> Since {
        Since {
            now: self.looked_at,
            window: self.cards.take(),
            processes: self.processes.take(),
        }
    }
}
