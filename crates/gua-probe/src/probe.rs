//! One look at all cards and their holders. A failing call costs one reading, with its reason; a lost card costs its
//! own readings; only a driver that does not answer at all costs the sample.

mod card;
mod follow;
mod holders;
mod settings;

use std::path::PathBuf;
use std::time::Duration;

use gua_model::{Driver, Gpu, GpuUuid, Missing, Problem, Sample};
use serde::{Deserialize, Serialize};

use crate::backoff::Backoff;
use crate::clock;
use crate::fault::DriverFault;
use crate::nvml::{Code, Device, Library, Lists};
use crate::process::{Passwd, ProcRoot, ProcessTable};
use follow::Followed;
use settings::Asked;

/// Where to look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeOptions {
    /// The driver library; by its soname where not given.
    pub library: Option<PathBuf>,
    pub proc_root: ProcRoot,
    pub passwd: Passwd,
}

/// Reads the driver in this process. It opens the library at the first sample, keeps it open, and opens it again after
/// a driver reload.
///
/// Concurrent callers have crashed drivers and hosts, so one thread owns it:
///
/// ```compile_fail
/// fn moves_to_another_thread<T: Send>() {}
/// moves_to_another_thread::<gua_probe::probe::Probe>();
/// ```
pub struct Probe {
    options: ProbeOptions,
    library: Option<Library>,
    lists: Lists,
    processes: ProcessTable,
    /// Every card ever seen, in the driver's order: one that is lost keeps its place and its name.
    known: Vec<Followed>,
    driver: Option<Asked<Driver>>,
    /// Room for the cards of a sample.
    room: Vec<Gpu>,
    opening: Backoff,
    reopening: Backoff,
    last_fault: Option<DriverFault>,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Probe")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A driver that names a new card at every tick would fill our memory.
const MOST_CARDS: usize = 1024;

/// What one pass over the cards brought.
struct Sweep {
    driver: Driver,
    gpus: Vec<Gpu>,
    problems: Vec<Problem>,
    /// Places in `gpus` of what answers, with its handle.
    devices: Vec<(usize, Device)>,
    /// A card that was here before is gone, or answers to nothing: perhaps it is the library that has grown stale.
    lost_a_card: bool,
}

impl Sweep {
    fn push(&mut self, gpu: Gpu, device: Device) {
        self.devices.push((self.gpus.len(), device));
        self.gpus.push(gpu);
    }

    fn note(
        &mut self,
        library: &Library,
        place: (Option<&GpuUuid>, u32),
        call: &str,
        code: Code,
    ) -> Missing {
        let why = code.missing();
        if why != Missing::Unsupported {
            self.problems.push(Problem {
                gpu: place.0.cloned(),
                index: Some(place.1),
                call: call.to_owned(),
                code: (code != Code::GARBAGE).then_some(code.0),
                why,
                text: library.text(code),
            });
        }
        why
    }
}

impl Probe {
    #[must_use]
    pub fn new(options: ProbeOptions) -> Self {
        let processes = ProcessTable::new(options.proc_root.clone(), options.passwd.clone());
        Self {
            options,
            library: None,
            lists: Lists::default(),
            processes,
            known: Vec::new(),
            driver: None,
            room: Vec::new(),
            opening: Backoff::new(Duration::from_secs(1), Duration::from_secs(60)),
            reopening: Backoff::new(Duration::from_secs(10), Duration::from_secs(300)),
            last_fault: None,
        }
    }

    /// Reads everything once.
    pub fn sample(&mut self) -> Result<Sample, DriverFault> {
        let at = clock::now();
        let since_boot = clock::since_boot();
        let sweep = self.read()?;
        self.processes.end_tick();
        Ok(Sample {
            at,
            since_boot,
            boot: self.processes.boot(),
            driver: sweep.driver,
            gpus: sweep.gpus,
            problems: sweep.problems,
        })
    }

    /// Takes back a sample that was handed on in another form. A list of cards is large enough for the allocator to tidy up
    /// before it makes a new one.
    pub(crate) fn take_back(&mut self, sample: Sample) {
        self.room = sample.gpus;
        self.room.clear();
    }

    /// Takes over what the driver has buffered, before it is overwritten. Cheap; asks nothing else.
    pub fn drain(&mut self) {
        let Some(library) = &self.library else { return };
        let now = clock::monotonic();
        for card in &mut self.known {
            if let Some(device) = card.device {
                card.follow(library, &mut self.lists, device, now);
            }
        }
    }

    /// When [`Probe::drain`] is due on the monotonic clock: half of what the shortest buffer reaches back after the last
    /// look at it. `None` while no card has a buffer.
    #[must_use]
    pub fn drain_due(&self) -> Option<Duration> {
        self.known.iter().filter_map(Followed::drain_due).min()
    }

    /// A pass over the cards; one more with the library opened anew when a card is lost or the driver does not answer.
    /// That is tried seldom while it does not help: `nvmlInit_v2` succeeds whatever state a single card is in.
    fn read(&mut self) -> Result<Sweep, DriverFault> {
        let library = match self.library.take() {
            Some(library) => library,
            None => self.open()?,
        };
        let first = self.sweep(&library);
        if first.as_ref().is_ok_and(|sweep| !sweep.lost_a_card) {
            self.reopening.succeeded();
            self.library = Some(library);
            return first;
        }
        let now = clock::monotonic();
        if self.reopening.remaining(now).is_some() {
            self.library = Some(library);
            return first;
        }
        self.reopening.failed(now);
        self.close(library);
        let second = self.open().and_then(|library| {
            let sweep = self.sweep(&library);
            self.library = Some(library);
            sweep
        });
        // What the first pass read was true when it was read.
        second.or(first)
    }

    fn open(&mut self) -> Result<Library, DriverFault> {
        let now = clock::monotonic();
        if let (Some(retry_in), Some(last)) = (self.opening.remaining(now), &self.last_fault) {
            return Err(DriverFault::BackingOff {
                retry_in,
                last: Box::new(last.clone()),
            });
        }
        match Library::open(self.options.library.as_deref()) {
            Ok(library) => {
                self.opening.succeeded();
                self.last_fault = None;
                Ok(library)
            }
            Err(fault) => {
                self.opening.failed(clock::monotonic());
                self.last_fault = Some(fault.clone());
                Err(fault)
            }
        }
    }

    /// Handles do not outlive the library that gave them.
    fn close(&mut self, library: Library) {
        self.driver = None;
        self.known.iter_mut().for_each(Followed::lose);
        drop(library);
    }

    fn sweep(&mut self, library: &Library) -> Result<Sweep, DriverFault> {
        let count = library.count().map_err(|code| DriverFault::Lost {
            call: "nvmlDeviceGetCount_v2".to_owned(),
            code: code.0,
            text: library.text(code),
        })?;
        let now = clock::monotonic();
        let mut sweep = Sweep {
            driver: settings::driver(&mut self.driver, library, now),
            gpus: std::mem::take(&mut self.room),
            problems: Vec::new(),
            devices: Vec::with_capacity(self.known.len()),
            lost_a_card: false,
        };
        let mut seen = vec![false; self.known.len()];
        for index in 0..count {
            let met = self.meet(library, index, now, &mut seen, &mut sweep);
            if let Some((place, device)) = met {
                self.read_card(library, place, device, clock::monotonic(), &mut sweep);
            }
        }
        self.confirm_holders(library, &mut sweep);
        self.add_lost(&seen, &mut sweep);
        Ok(sweep)
    }

    /// Finds out which card has this number now; `None` where the card does not say.
    fn meet(
        &mut self,
        library: &Library,
        index: u32,
        now: Duration,
        seen: &mut Vec<bool>,
        sweep: &mut Sweep,
    ) -> Option<(usize, Device)> {
        let before = self.known.iter().position(|card| card.index == index);
        let device = match library.device(index) {
            Ok(device) => device,
            Err(code) => {
                let uuid = before.map(|place| &self.known[place].uuid);
                sweep.note(
                    library,
                    (uuid, index),
                    "nvmlDeviceGetHandleByIndex_v2",
                    code,
                );
                return None;
            }
        };
        if let Some(place) = before
            && self.known[place].is_known_by(device, index, now)
            && !seen[place]
        {
            seen[place] = true;
            return Some((place, device));
        }
        let remembered = before.map(|place| self.known[place].uuid.clone());
        let mut failed = |call, code| {
            sweep.note(library, (remembered.as_ref(), index), call, code);
        };
        let uuid = library
            .uuid(device)
            .and_then(|text| text.parse::<GpuUuid>().map_err(|_| Code::GARBAGE));
        let uuid = uuid
            .map_err(|code| failed("nvmlDeviceGetUUID", code))
            .ok()?;
        let known = self.known.iter().position(|card| card.uuid == uuid);
        if known.is_none() && self.known.len() >= MOST_CARDS {
            failed("nvmlDeviceGetUUID", Code::GARBAGE);
            return None;
        }
        let place = known.unwrap_or_else(|| {
            self.known.push(Followed::new(uuid));
            seen.push(false);
            self.known.len() - 1
        });
        if seen[place] {
            failed("nvmlDeviceGetUUID", Code::GARBAGE);
            return None;
        }
        seen[place] = true;
        self.known[place].index = index;
        self.known[place].device = Some(device);
        self.known[place].named_at = Some(now);
        Some((place, device))
    }

    /// Cards that were here before and did not say their name now stay in the sample, without readings.
    fn add_lost(&mut self, seen: &[bool], sweep: &mut Sweep) {
        for (card, _) in self.known.iter_mut().zip(seen).filter(|(_, seen)| !**seen) {
            card.lose();
            sweep.lost_a_card = true;
            sweep.gpus.extend(card.without_readings(Missing::Gone));
        }
        if !sweep.gpus.is_sorted_by_key(|gpu| gpu.index) {
            sweep.gpus.sort_by_key(|gpu| gpu.index);
        }
    }
}
