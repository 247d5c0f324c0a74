//! Reads one card, and the MIG instances on it.

use std::time::Duration;

use gua_model::sample::{PerformanceState, Slice, Switch, ThrottleReasons};
use gua_model::{
    Bytes, Celsius, FanSpeed, Gpu, GpuUuid, Megahertz, Millijoules, Milliwatts, Missing, Percent,
    Place, Reading, UtilWindow,
};

use super::holders::{Found, Instance, resolve_again};
use super::settings::Settings;
use super::{Probe, Sweep};
use crate::nvml::{Code, Device, EccKind, Library, Memory};

/// Asks one card, and stops asking once it is lost: the driver has said so, and each further call may take long.
pub(super) struct Asker<'a> {
    pub(super) library: &'a Library,
    pub(super) sweep: &'a mut Sweep,
    pub(super) uuid: &'a GpuUuid,
    pub(super) index: u32,
    lost: bool,
    /// Whether a call has failed. What a card does not have is no failure.
    is_in_trouble: bool,
}

impl<'a> Asker<'a> {
    fn new(library: &'a Library, sweep: &'a mut Sweep, uuid: &'a GpuUuid, index: u32) -> Self {
        Self {
            library,
            sweep,
            uuid,
            index,
            lost: false,
            is_in_trouble: false,
        }
    }

    pub(super) fn ask<T>(
        &mut self,
        call: &str,
        question: impl FnOnce(&Library) -> Result<T, Code>,
    ) -> Reading<T> {
        if self.lost {
            return Err(Missing::Gone);
        }
        question(self.library).map_err(|code| self.note(call, code))
    }

    pub(super) fn note(&mut self, call: &str, code: Code) -> Missing {
        self.lost |= code == Code::GPU_IS_LOST;
        let why = self
            .sweep
            .note(self.library, (Some(self.uuid), self.index), call, code);
        self.is_in_trouble |= why != Missing::Unsupported;
        why
    }

    pub(super) fn is_in_trouble(&self) -> bool {
        self.is_in_trouble
    }

    /// A power that is believed.
    pub(super) fn power(
        &mut self,
        call: &str,
        question: impl FnOnce(&Library) -> Result<u32, Code>,
    ) -> Reading<Milliwatts> {
        let power = self.number(call, question, |value| *value <= MOST_MILLIWATTS);
        power.map(|value| Milliwatts(value.into()))
    }

    /// A number that is believed only within the bounds of what hardware can have.
    fn number<T>(
        &mut self,
        call: &str,
        question: impl FnOnce(&Library) -> Result<T, Code>,
        believable: impl FnOnce(&T) -> bool,
    ) -> Reading<T> {
        self.ask(call, |library| {
            question(library).and_then(|value| {
                if believable(&value) {
                    Ok(value)
                } else {
                    Err(Code::GARBAGE)
                }
            })
        })
    }
}

/// Ten kilowatts: eight times what the largest module draws.
const MOST_MILLIWATTS: u32 = 10_000_000;
const MOST_MEGAHERTZ: u32 = 10_000;
/// In percent of a maximum that may be exceeded.
const MOST_FAN_SPEED: u16 = 1000;
const MOST_MEMORY: u64 = 1 << 50;
/// A counter beyond this would have taken centuries.
const MOST_COUNT: u64 = 1 << 56;

impl Probe {
    pub(super) fn read_card(
        &mut self,
        library: &Library,
        place: usize,
        device: Device,
        now: Duration,
        sweep: &mut Sweep,
    ) {
        let Self {
            lists,
            processes,
            known,
            ..
        } = self;
        let card = &mut known[place];
        card.follow(library, lists, device, now);
        let since = card.since_last_tick();
        let (uuid, index) = (card.uuid.clone(), card.index);
        let mut asker = Asker::new(library, sweep, &uuid, index);

        if card.name.is_err() {
            card.name = asker.ask("nvmlDeviceGetName", |library| library.name(device));
        }
        if card.pci.is_err() {
            card.pci = asker.ask("nvmlDeviceGetPciInfo_v3", |library| library.pci(device));
        }
        let mut gpu = Gpu::without_readings(uuid.clone(), index, Missing::Unsupported);
        gpu.name = card.name.clone();
        gpu.pci = card.pci;
        read_memory(&mut gpu, &mut asker, device);
        read_utilisation(&mut gpu, &mut asker, device, since.window());
        read_sensors(&mut gpu, &mut asker, device);
        // After the sensors, which tell whether the card is well.
        let settings = Settings::read(&mut card.settings, &mut asker, device, now);
        gpu.power_limit = settings.power_limit;
        gpu.compute_mode = settings.compute_mode;
        gpu.persistence = settings.persistence;
        read_ecc(&mut gpu, &mut asker, device, settings.ecc_mode);
        gpu.mig = asker.ask("nvmlDeviceGetMigMode", |library| library.mig_mode(device));

        let mut found = Found::read(&mut asker, lists, device);
        let (mut instances, mut unread) = (Vec::new(), Vec::new());
        match gpu.mig {
            Ok(Switch::On) => {
                let (listed, complete) = Instance::all(&mut asker, device);
                for instance in listed {
                    instances.push(instance.read(&mut asker, lists, &mut found, index));
                }
                let is_listed =
                    |uuid: &GpuUuid| instances.iter().any(|(gpu, ..)| gpu.uuid == *uuid);
                if let Err(why) = complete {
                    unread.extend(card.instances_without_readings(why, |uuid| !is_listed(uuid)));
                }
                let all = instances.iter().map(|(gpu, ..)| gpu).chain(&unread);
                card.instances = all
                    .map(|gpu| (gpu.uuid.clone(), gpu.place.clone()))
                    .collect();
            }
            Ok(Switch::Off) | Err(Missing::Unsupported) => card.instances.clear(),
            // Nobody can say now how the card is divided; it is as it was.
            Err(why) => unread.extend(card.instances_without_readings(why, |_| true)),
        }
        if gpu.mig == Ok(Switch::On) || !card.instances.is_empty() {
            // An older driver lists their processes on the parent too, without saying whose they are.
            found.forget(|pid| instances.iter().any(|(_, _, found)| found.lists_pid(pid)));
            let instances = u32::try_from(card.instances.len()).unwrap_or(u32::MAX);
            gpu.place = Place::Parent { instances };
        }
        if let Some(code) = since.processes.1 {
            asker.note("nvmlDeviceGetProcessUtilization", code);
        }
        found.into_gpu(&mut gpu, &mut asker, lists, processes, &since, device);
        if asker.is_in_trouble() {
            card.doubt();
        }
        sweep.lost_a_card |= !answers(&gpu);
        sweep.push(gpu, device);
        for (mut instance, device, found) in instances {
            let uuid = instance.uuid.clone();
            let mut asker = Asker::new(library, sweep, &uuid, index);
            found.into_gpu(&mut instance, &mut asker, lists, processes, &since, device);
            sweep.push(instance, device);
        }
        sweep.gpus.append(&mut unread);
    }
}

impl Probe {
    /// Looks whether the processes that were known already have lived until now, in one go for all cards.
    pub(super) fn confirm_holders(&mut self, library: &Library, sweep: &mut Sweep) {
        let ended = self.processes.confirm();
        let devices = std::mem::take(&mut sweep.devices);
        if ended.is_empty() {
            return;
        }
        for (place, device) in devices {
            let nothing = Gpu::without_readings(sweep.gpus[place].uuid.clone(), 0, Missing::Failed);
            let mut gpu = std::mem::replace(&mut sweep.gpus[place], nothing);
            let uuid = gpu.uuid.clone();
            let mut asker = Asker::new(library, sweep, &uuid, gpu.index);
            let (lists, table) = (&mut self.lists, &mut self.processes);
            resolve_again(&mut gpu, &ended, &mut asker, lists, table, device);
            sweep.gpus[place] = gpu;
        }
    }
}

/// Whether the card said anything about now. One that only repeats its name may be read through a library that has grown
/// stale: names are remembered there.
fn answers(gpu: &Gpu) -> bool {
    fn said<T>(reading: &Reading<T>) -> bool {
        matches!(reading, Ok(_) | Err(Missing::Unsupported | Missing::Denied))
    }
    said(&gpu.memory_used) || said(&gpu.util) || said(&gpu.power) || said(&gpu.compute_list)
}

pub(super) fn read_memory(gpu: &mut Gpu, asker: &mut Asker<'_>, device: Device) {
    let memory = asker.number(
        "nvmlDeviceGetMemoryInfo",
        |library| library.memory(device),
        |memory: &Memory| memory.total.0 <= MOST_MEMORY,
    );
    gpu.memory_total = memory.map(|memory| memory.total);
    gpu.memory_used = memory.map(|memory| memory.used);
    gpu.memory_reserved = memory.and_then(|memory| memory.reserved.ok_or(Missing::Unsupported));
}

fn read_utilisation(
    gpu: &mut Gpu,
    asker: &mut Asker<'_>,
    device: Device,
    window: Result<UtilWindow, Code>,
) {
    let call = "nvmlDeviceGetUtilizationRates";
    let rates = asker.ask(call, |library| library.utilisation(device));
    // More than a hundred is junk: no reading, and certainly not a hundred.
    let mut percent = |value| Percent::new(value).ok_or_else(|| asker.note(call, Code::GARBAGE));
    gpu.util = rates.and_then(|(card, _)| percent(card));
    gpu.memory_util = rates.and_then(|(_, memory)| percent(memory));
    gpu.window = asker.ask("nvmlDeviceGetSamples", |_| window);
}

fn read_sensors(gpu: &mut Gpu, asker: &mut Asker<'_>, device: Device) {
    let celsius = asker.ask("nvmlDeviceGetTemperature", |library| {
        // A reading below zero comes as a huge unsigned number.
        let value = library.temperature(device)?.cast_signed();
        if (-100..=250).contains(&value) {
            Ok(value)
        } else {
            Err(Code::GARBAGE)
        }
    });
    gpu.temperature = celsius.map(Celsius);
    gpu.power = asker.power("nvmlDeviceGetPowerUsage", |library| library.power(device));
    let count = |value: &u64| *value <= MOST_COUNT;
    let energy = asker.number(
        "nvmlDeviceGetTotalEnergyConsumption",
        |library| library.energy(device),
        count,
    );
    gpu.energy = energy.map(Millijoules);
    let clock = |value: &u32| *value <= MOST_MEGAHERTZ;
    let sm_clock = asker.number(
        "nvmlDeviceGetClockInfo",
        |library| library.sm_clock(device),
        clock,
    );
    gpu.sm_clock = sm_clock.map(Megahertz);
    let memory_clock = asker.number(
        "nvmlDeviceGetClockInfo",
        |library| library.memory_clock(device),
        clock,
    );
    gpu.memory_clock = memory_clock.map(Megahertz);
    let fan = asker.ask("nvmlDeviceGetFanSpeed", |library| {
        let speed = u16::try_from(library.fan(device)?).map_err(|_| Code::GARBAGE)?;
        if speed <= MOST_FAN_SPEED {
            Ok(speed)
        } else {
            Err(Code::GARBAGE)
        }
    });
    gpu.fan = fan.map(FanSpeed);
    let state = asker.ask("nvmlDeviceGetPerformanceState", |library| {
        library.performance_state(device)
    });
    gpu.performance_state = state.map(PerformanceState);
    let reasons = asker.ask("nvmlDeviceGetCurrentClocksEventReasons", |library| {
        library.throttle_reasons(device)
    });
    gpu.throttle = reasons.map(ThrottleReasons);
}

/// Reads the ECC mode's counters, which exist only while the mode is on.
fn read_ecc(gpu: &mut Gpu, asker: &mut Asker<'_>, device: Device, mode: Reading<Switch>) {
    let mut errors = |kind| match mode? {
        Switch::On => asker.number(
            "nvmlDeviceGetTotalEccErrors",
            |library| library.ecc_errors(device, kind),
            |value: &u64| *value <= MOST_COUNT,
        ),
        Switch::Off => Err(Missing::Unsupported),
    };
    gpu.ecc_corrected = errors(EccKind::Corrected);
    gpu.ecc_uncorrected = errors(EccKind::Uncorrected);
    gpu.ecc_mode = mode;
}

/// The share of its parent: by compute slices, so that two compute instances in one GPU instance are not counted twice.
pub(super) fn slice_of(asker: &mut Asker<'_>, device: Device, of: u32) -> Reading<Slice> {
    asker.ask("nvmlDeviceGetAttributes_v2", |library| {
        let slices = library.slices(device)?;
        let own = if slices.compute_instance > 0 {
            slices.compute_instance
        } else {
            slices.gpu_instance
        };
        if (1..=of).contains(&own) {
            Ok(Slice { slices: own, of })
        } else {
            Err(Code::GARBAGE)
        }
    })
}

/// What a process can hold at the most.
pub(super) fn believable_memory(memory: Reading<Bytes>) -> Reading<Bytes> {
    memory.and_then(|memory| {
        if memory.0 <= MOST_MEMORY {
            Ok(memory)
        } else {
            Err(Missing::Failed)
        }
    })
}
