//! The readings of a card as a row of numbers. The order is part of the stored form: those that change often come
//! first, so that the mask of changes is short.

use gua_model::sample::{ComputeMode, Ecc, PerformanceState, Slice, Switch, ThrottleReasons};
use gua_model::{
    Bytes, Celsius, FanSpeed, Gpu, GpuUuid, Megahertz, Millijoules, Milliwatts, Missing, PciId,
    Percent, Place, Reading,
};

use super::Damage;

/// A number, or why there is none.
pub(crate) type Slot = Reading<u64>;

pub(crate) const SLOTS: usize = 34;
pub(crate) type Slots = [Slot; SLOTS];

/// What a slot holds in which no card has said anything yet.
pub(crate) const EMPTY: Slots = [Ok(0); SLOTS];

const POWER: usize = 0;
const ENERGY: usize = 1;

/// What a slot is compared with: its value before; for the energy counter, what it should be by now at the power that
/// was just read, which is slot 0 and known first.
pub(crate) fn expected(slot: usize, now: &Slots, before: Slot, elapsed_ms: u64) -> Slot {
    match (slot, now[POWER], before) {
        (ENERGY, Ok(power), Ok(energy)) => {
            Ok(energy.wrapping_add(power.wrapping_mul(elapsed_ms) / 1000))
        }
        _ => before,
    }
}

const WHOLE: u64 = 0;
const PARENT: u64 = 1;
const INSTANCE: u64 = 2;

/// Names that the slots hold as ids.
#[derive(Clone, Debug)]
pub(crate) struct CardNames<Name, Parent> {
    pub(crate) name: Reading<Name>,
    pub(crate) parent: Option<Parent>,
}

pub(crate) fn from_gpu(gpu: &Gpu, names: &CardNames<u64, u64>) -> Slots {
    let (place, instances, instance) = place_slots(&gpu.place);
    let [gpu_instance, compute_instance, slice] = instance;
    let ecc = |part: fn(&Ecc) -> Slot| gpu.ecc.as_ref().map_or(Ok(0), part);
    [
        gpu.power.map(|value| value.0),
        gpu.energy.map(|value| value.0),
        gpu.util.map(percent),
        gpu.memory_util.map(percent),
        gpu.temperature.map(celsius),
        gpu.sm_clock.map(|value| value.0.into()),
        gpu.memory_used.map(|value| value.0),
        gpu.fan.map(|fan| fan.0.into()),
        gpu.throttle.map(|value| value.0),
        gpu.memory_clock.map(|value| value.0.into()),
        gpu.performance_state.map(|value| value.0.into()),
        gpu.power_limit.map(|value| value.0),
        gpu.memory_reserved.map(|value| value.0),
        gpu.memory_total.map(|value| value.0),
        gpu.ecc
            .as_ref()
            .map(|ecc| switch(ecc.mode))
            .map_err(|why| *why),
        ecc(|ecc| ecc.corrected),
        ecc(|ecc| ecc.uncorrected),
        gpu.compute_list.map(|()| 0),
        gpu.graphics_list.map(|()| 0),
        gpu.mig.map(switch),
        gpu.compute_mode.map(compute_mode),
        gpu.persistence.map(switch),
        Ok(gpu.index.into()),
        names.name,
        gpu.pci.map(pci),
        Ok(place),
        Ok(instances),
        Ok(names.parent.unwrap_or(0)),
        gpu_instance,
        compute_instance,
        slice,
        // Room for readings to come: a slot that never changes costs nothing.
        Ok(0),
        Ok(0),
        Ok(0),
    ]
}

/// The card that the slots describe, without its window and its processes.
pub(crate) fn to_gpu(
    uuid: GpuUuid,
    slots: &Slots,
    names: CardNames<String, GpuUuid>,
) -> Result<Gpu, Damage> {
    let mut gpu = Gpu::without_readings(
        uuid,
        small(slots[22], "index")?.map_err(|_| Damage::Value("index"))?,
        Missing::Failed,
    );
    gpu.power = slots[0].map(Milliwatts);
    gpu.energy = slots[1].map(Millijoules);
    gpu.util = to_percent(slots[2])?;
    gpu.memory_util = to_percent(slots[3])?;
    gpu.temperature = to_celsius(slots[4])?;
    gpu.sm_clock = small(slots[5], "clock")?.map(Megahertz);
    gpu.memory_used = slots[6].map(Bytes);
    gpu.fan = checked(slots[7], |value| u16::try_from(value).ok().map(FanSpeed))
        .ok_or(Damage::Value("fan speed"))?;
    gpu.throttle = slots[8].map(ThrottleReasons);
    gpu.memory_clock = small(slots[9], "clock")?.map(Megahertz);
    gpu.performance_state = checked(slots[10], |value| {
        u8::try_from(value).ok().map(PerformanceState)
    })
    .ok_or(Damage::Value("performance state"))?;
    gpu.power_limit = slots[11].map(Milliwatts);
    gpu.memory_reserved = slots[12].map(Bytes);
    gpu.memory_total = slots[13].map(Bytes);
    gpu.ecc = to_switch(slots[14])?.map(|mode| Ecc {
        mode,
        corrected: slots[15],
        uncorrected: slots[16],
    });
    gpu.compute_list = slots[17].map(drop);
    gpu.graphics_list = slots[18].map(drop);
    gpu.mig = to_switch(slots[19])?;
    gpu.compute_mode = checked(slots[20], to_compute_mode).ok_or(Damage::Value("compute mode"))?;
    gpu.persistence = to_switch(slots[21])?;
    gpu.name = names.name;
    gpu.pci = checked(slots[24], to_pci).ok_or(Damage::Value("pci place"))?;
    gpu.place = to_place(slots, names.parent)?;
    Ok(gpu)
}

/// The interned ids among the slots, to be looked up before [`to_gpu`].
pub(crate) fn names(slots: &Slots) -> CardNames<u64, u64> {
    CardNames {
        name: slots[23],
        parent: match (slots[25], slots[27]) {
            (Ok(INSTANCE), Ok(parent)) => Some(parent),
            _ => None,
        },
    }
}

fn place_slots(place: &Place) -> (u64, u64, [Slot; 3]) {
    match place {
        Place::Whole => (WHOLE, 0, [Ok(0); 3]),
        Place::Parent { instances } => (PARENT, (*instances).into(), [Ok(0); 3]),
        Place::Instance {
            gpu_instance,
            compute_instance,
            slice,
            ..
        } => (
            INSTANCE,
            0,
            [
                gpu_instance.map(Into::into),
                compute_instance.map(Into::into),
                slice.map(|slice| (u64::from(slice.slices) << 32) | u64::from(slice.of)),
            ],
        ),
    }
}

fn to_place(slots: &Slots, parent: Option<GpuUuid>) -> Result<Place, Damage> {
    match (slots[25], parent) {
        (Ok(WHOLE), _) => Ok(Place::Whole),
        (Ok(PARENT), _) => Ok(Place::Parent {
            instances: small(slots[26], "number of instances")?
                .map_err(|_| Damage::Value("number of instances"))?,
        }),
        (Ok(INSTANCE), Some(parent)) => Ok(Place::Instance {
            parent,
            gpu_instance: small(slots[28], "instance")?,
            compute_instance: small(slots[29], "instance")?,
            slice: slots[30].map(|packed| Slice {
                slices: upper(packed),
                of: lower(packed),
            }),
        }),
        _ => Err(Damage::Value("place")),
    }
}

/// `None` where there is a number and it cannot be what it should be.
fn checked<T>(slot: Slot, build: impl FnOnce(u64) -> Option<T>) -> Option<Reading<T>> {
    match slot {
        Ok(value) => build(value).map(Ok),
        Err(why) => Some(Err(why)),
    }
}

fn small(slot: Slot, what: &'static str) -> Result<Reading<u32>, Damage> {
    checked(slot, |value| u32::try_from(value).ok()).ok_or(Damage::Value(what))
}

fn percent(value: Percent) -> u64 {
    value.get().into()
}

fn to_percent(slot: Slot) -> Result<Reading<Percent>, Damage> {
    checked(slot, |value| Percent::new(u32::try_from(value).ok()?))
        .ok_or(Damage::Value("percentage"))
}

/// Signed numbers are folded, so that small ones stay small: 0, -1, 1, -2 become 0, 1, 2, 3.
fn celsius(value: Celsius) -> u64 {
    let value = i64::from(value.0);
    (value.wrapping_shl(1) ^ (value >> 63)).cast_unsigned()
}

fn to_celsius(slot: Slot) -> Result<Reading<Celsius>, Damage> {
    checked(slot, |folded| {
        let value = (folded >> 1).cast_signed() ^ -((folded & 1).cast_signed());
        i32::try_from(value).ok().map(Celsius)
    })
    .ok_or(Damage::Value("temperature"))
}

fn switch(value: Switch) -> u64 {
    match value {
        Switch::Off => 0,
        Switch::On => 1,
    }
}

fn to_switch(slot: Slot) -> Result<Reading<Switch>, Damage> {
    checked(slot, |value| match value {
        0 => Some(Switch::Off),
        1 => Some(Switch::On),
        _ => None,
    })
    .ok_or(Damage::Value("switch"))
}

fn compute_mode(value: ComputeMode) -> u64 {
    match value {
        ComputeMode::Default => 0,
        ComputeMode::ExclusiveThread => 1,
        ComputeMode::Prohibited => 2,
        ComputeMode::ExclusiveProcess => 3,
        ComputeMode::Other(number) => 4 + u64::from(number),
    }
}

fn to_compute_mode(value: u64) -> Option<ComputeMode> {
    Some(match value {
        0 => ComputeMode::Default,
        1 => ComputeMode::ExclusiveThread,
        2 => ComputeMode::Prohibited,
        3 => ComputeMode::ExclusiveProcess,
        other => ComputeMode::Other(u32::try_from(other - 4).ok()?),
    })
}

fn pci(id: PciId) -> u64 {
    (u64::from(id.domain) << 16) | (u64::from(id.bus) << 8) | u64::from(id.device)
}

fn to_pci(packed: u64) -> Option<PciId> {
    let [_, _, _, _, _, _, bus, device] = packed.to_be_bytes();
    Some(PciId {
        domain: u32::try_from(packed >> 16).ok()?,
        bus,
        device,
    })
}

fn upper(packed: u64) -> u32 {
    u32::try_from(packed >> 32).expect("32 bits are left")
}

fn lower(packed: u64) -> u32 {
    u32::try_from(packed & u64::from(u32::MAX)).expect("32 bits are left")
}
